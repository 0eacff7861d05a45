"""The space of serving plans: layouts, replicas, pools."""
