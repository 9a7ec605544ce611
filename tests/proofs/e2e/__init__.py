"""The shipped flows, deployed: the generated template and zip on MiniStack, whose functions are processes."""
