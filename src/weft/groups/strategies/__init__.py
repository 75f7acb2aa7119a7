"""What a grouped tool is made of: schema, descriptions, annotations and chains, each a pure function."""
