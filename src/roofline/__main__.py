"""`python -m roofline`: the same as `roofline`."""

from roofline.doors.cli.main import main

if __name__ == "__main__":
    main()
