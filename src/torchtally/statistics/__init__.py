"""The things a metric can remember, one family a file. Look here before writing a new one.

`averages` weighted sums · `extremes` the largest and smallest · `samples` all numbers · `class_counts` hits, predictions and targets per class or
label · `confusion` the confusion matrix · `whole_rows` rows right as a whole · `curves` scores, sorted or in bins · `moments`, `errors`, `ranks` for
regression. Nothing is imported here, so that a metric loads only what it remembers.
"""
