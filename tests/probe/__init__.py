"""The programs that ask AWS, run on the engines here."""
