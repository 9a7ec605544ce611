variable "name" {}
variable "give_up_to" { default = null }
variable "visibility" { default = 210 }
resource "aws_sqs_queue" "this" {
  name                       = var.name
  visibility_timeout_seconds = var.visibility
  message_retention_seconds  = 1036800
  redrive_policy = var.give_up_to == null ? null : jsonencode({ deadLetterTargetArn = var.give_up_to, maxReceiveCount = 100 })
}
output "arn" { value = aws_sqs_queue.this.arn }
output "url" { value = aws_sqs_queue.this.url }
