"""What went wrong in other implementations, one test for each kind of fault; `test_every_case` accounts for all."""
