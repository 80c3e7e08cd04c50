"""What tests share: oracles and data, never product code."""
