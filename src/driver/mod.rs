//! How actions reach the nodes: the trait, `flip` and `manual`.
