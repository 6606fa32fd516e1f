"""The demonstrations: a made-up support desk in money, and real data sets with classes the log never tried."""
