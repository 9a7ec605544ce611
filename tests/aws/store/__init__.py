"""The store's contract, judged by moto, by the AWS in memory and by AWS's own DynamoDB."""
