"""What this project knows of the Qwen family: phases of thinking, chat templates."""
