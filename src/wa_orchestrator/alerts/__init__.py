"""Tells the operator what matters: follows the journal, folds repeats, says recoveries, writes to Telegram."""
