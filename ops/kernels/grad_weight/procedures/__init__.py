"""The vendor's procedures for grad_weight: each is a file here that ends in a PROCEDURE; configs/tilings.yaml names it."""
