"""What `spark-submit` runs for every verb: the command line of Winnow."""

from winnow.cli.main import main

if __name__ == "__main__":
    main()
