"""Work over many seeds in processes of their own."""
