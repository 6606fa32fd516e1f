"""The live service: decisions over HTTP, durable, learning from rewards that come later, watched on one page."""
