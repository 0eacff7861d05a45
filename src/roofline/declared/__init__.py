"""What every door is made from: types of settings, groups of them, questions."""
