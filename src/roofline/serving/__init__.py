"""A server in steady state: closed and open loops, pools, drafts, percentiles."""
