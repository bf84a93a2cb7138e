"""The vendor's procedures for grad_input: each is a file here that ends in a PROCEDURE; configs/tilings.yaml names it."""
