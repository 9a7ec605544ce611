provider "aws" {
  region = "eu-west-1"
  access_key = "x"
  secret_key = "x"
  skip_credentials_validation = true
  skip_requesting_account_id = true
  skip_metadata_api_check = true
}
variable "stage" { default = "dev" }
module "killed" {
  source = "./mods/queue"
  name   = "orders-killed"
}
module "orders" {
  source     = "./mods/queue"
  name       = "orders"
  give_up_to = module.killed.arn
}
resource "aws_iam_role" "place" {
  name_prefix        = "place-"
  assume_role_policy = jsonencode({ Version = "2012-10-17", Statement = [{ Effect = "Allow", Action = "sts:AssumeRole", Principal = { Service = "lambda.amazonaws.com" } }] })
}
data "aws_iam_policy_document" "place" {
  statement {
    actions   = ["sqs:ReceiveMessage"]
    resources = [module.orders.arn]
  }
}
resource "aws_iam_role_policy" "place" {
  role   = aws_iam_role.place.id
  policy = data.aws_iam_policy_document.place.json
}
resource "aws_lambda_function" "place" {
  count         = 1
  function_name = "orders-place"
  handler       = "orders.handlers.place"
  runtime       = "python3.13"
  s3_bucket     = "code"
  s3_key        = "code.zip"
  timeout       = 35
  role          = aws_iam_role.place.arn
  environment {
    variables = {
      FLOWGUARD_TABLE = aws_dynamodb_table.runs.name
    }
  }
}
resource "aws_lambda_function_recursion_config" "place" {
  function_name  = aws_lambda_function.place[0].function_name
  recursive_loop = "Allow"
}
resource "aws_lambda_event_source_mapping" "place" {
  event_source_arn        = module.orders.arn
  function_name           = aws_lambda_function.place[0].arn
  function_response_types = ["ReportBatchItemFailures"]
}
resource "aws_dynamodb_table" "runs" {
  name         = "flowguard"
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = "pk"
  range_key    = "sk"
  attribute {
    name = "pk"
    type = "S"
  }
  attribute {
    name = "sk"
    type = "S"
  }
  ttl {
    attribute_name = "ttl"
    enabled        = true
  }
  dynamic "point_in_time_recovery" {
    for_each = [true]
    content {
      enabled = point_in_time_recovery.value
    }
  }
}
resource "aws_sns_topic" "placed" {
  for_each = toset(["placed"])
  name     = each.key
}
resource "aws_sns_topic_subscription" "placed" {
  topic_arn = aws_sns_topic.placed["placed"].arn
  protocol  = "sqs"
  endpoint  = module.orders.arn
}
