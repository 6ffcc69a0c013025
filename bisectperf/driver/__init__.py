"""The loop: ask the core, do it, write down what happened, ask again."""
