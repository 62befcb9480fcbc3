"""The application that `spark-submit` runs for every verb: Winnow's command line."""

from winnow.worker import standby

if __name__ == "__main__":
    standby.start()  # before anything else is imported
    from winnow.cli.main import main

    main()
