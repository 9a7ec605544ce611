"""What the Lambda functions point at: one for each stage, and one for the answers of search and filter."""

from __future__ import annotations

from flowguard import callback_handler, lambda_handler
from flows.validate_cart.flow import AddFound, CheckCart, ConfirmCart, PriceCart, ValidateCart

price_cart = lambda_handler(ValidateCart, PriceCart)
add_found = lambda_handler(ValidateCart, AddFound)
check_cart = lambda_handler(ValidateCart, CheckCart)
confirm_cart = lambda_handler(ValidateCart, ConfirmCart)
answers = callback_handler(ValidateCart)
