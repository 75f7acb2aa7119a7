"""Front doors: where clients come in, each speaking its own language; behind all of them is the one gateway."""
