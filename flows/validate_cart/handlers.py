"""What the Lambda functions point at, one for each stage."""

from __future__ import annotations

from flowguard import lambda_handler
from flows.validate_cart.flow import CheckCart, ConfirmCart, PriceCart, ValidateCart

price_cart = lambda_handler(ValidateCart, PriceCart)
check_cart = lambda_handler(ValidateCart, CheckCart)
confirm_cart = lambda_handler(ValidateCart, ConfirmCart)
