"""The application that `spark-submit` runs for every verb: Winnow's command line."""

from winnow.cli.main import main

if __name__ == "__main__":
    main()
