"""Operations on logits and mask rows, each with its contract and its plain reference."""
