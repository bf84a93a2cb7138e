"""ascend-sim: convolution backward executed on a model of the Ascend AI Core."""
