"""What is registered: tools by name, and who names whom."""
