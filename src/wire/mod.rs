//! Public JSON: bodies of requests and answers with their schemas, and conversions to and from domain.
