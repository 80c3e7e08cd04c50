"""The only code that changes vLLM: declared, verified patches and the plugin's entry point."""
