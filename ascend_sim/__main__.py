"""`python -m ascend_sim`."""

from ascend_sim.cli import main

main()
