"""From a step to facts: tree, build, launch, samples, proof."""
