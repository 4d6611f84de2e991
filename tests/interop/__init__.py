"""Other people's clients against our servers."""
