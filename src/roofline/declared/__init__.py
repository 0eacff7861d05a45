"""Declarations of settings and questions, from which every interface is derived: types, groups, questions, results."""
