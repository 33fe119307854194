"""What the product is compared with. Nothing here is part of it."""
