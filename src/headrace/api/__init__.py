"""What users implement or pass, and the narrow protocols through which the engine is driven."""
