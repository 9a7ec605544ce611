"""Facts about IAM and CloudFormation that deployments rely on."""

from __future__ import annotations

from typing import Final

from flowguard.aws_facts.fact import NOWHERE, Document, Fact, like

_IAM: Final = "https://docs.aws.amazon.com/IAM/latest/UserGuide"
_CFN: Final = "https://docs.aws.amazon.com/AWSCloudFormation/latest"
_DELAY: Final = Document(
    "Troubleshoot IAM: Changes that I make are not always immediately visible", f"{_IAM}/troubleshoot.html"
)
_QUOTAS: Final = Document("IAM and AWS STS quotas", f"{_IAM}/reference_iam-quotas.html")
_DATA_API: Final = Document(
    "Authorizing access to the Amazon RDS Data API",
    "https://docs.aws.amazon.com/AmazonRDS/latest/AuroraUserGuide/data-api.access.html",
)
_SIMULATE: Final = Document(
    "SimulatePrincipalPolicy", "https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html"
)
_SERVICES: Final = Document(
    "Manage permissions for AWS services accessing your resources",
    "https://aws.amazon.com/about-aws/whats-new/2021/05/"
    "aws-identity-and-access-management-now-makes-it-easier-for-you-to-manage-permissions-for-aws-services-accessing-your-resources",
)
_DELETION: Final = Document("DeletionPolicy attribute", f"{_CFN}/TemplateReference/aws-attribute-deletionpolicy.html")
_DEPENDS: Final = Document("DependsOn attribute", f"{_CFN}/TemplateReference/aws-attribute-dependson.html")
_REPLACE: Final = Document(
    "Understand update behaviors of stack resources",
    f"{_CFN}/UserGuide/using-cfn-updating-stacks-update-behaviors.html",
)
_LIMITS: Final = Document("CloudFormation quotas", f"{_CFN}/UserGuide/cloudformation-limits.html")
_NESTED: Final = Document(
    "Embed stacks within other stacks using nested stacks", f"{_CFN}/UserGuide/using-cfn-nested-stacks.html"
)
_DYNAMIC: Final = Document(
    "Get values stored in other services using dynamic references", f"{_CFN}/UserGuide/dynamic-references.html"
)
_EXPORTS: Final = Document("ListExports", f"{_CFN}/APIReference/API_ListExports.html")
_TAGS: Final = Document(
    "Tags", "https://docs.aws.amazon.com/resourcegroupstagging/latest/APIReference/API_GetResources.html"
)
_TAGGING: Final = Document(
    "Tag naming limits and requirements", "https://docs.aws.amazon.com/tag-editor/latest/userguide/tagging.html"
)
_VPC: Final = Document(
    "Giving Lambda functions access to resources in an Amazon VPC",
    "https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html",
)
_PASSED: Final = Document(
    "Grant a user permissions to pass a role to an AWS service", f"{_IAM}/id_roles_use_passrole.html"
)
_DEPUTY: Final = Document(
    "Cross-service confused deputy prevention in EventBridge Scheduler",
    "https://docs.aws.amazon.com/scheduler/latest/UserGuide/cross-service-confused-deputy-prevention.html",
)
_ACROSS: Final = Document(
    "Cross-account policy evaluation logic", f"{_IAM}/reference_policies_evaluation-logic-cross-account.html"
)
_BOUNDARY: Final = Document("Permissions boundaries for IAM entities", f"{_IAM}/access_policies_boundaries.html")
_SIGNED: Final = Document(
    "Using code signing to verify code integrity with Lambda",
    "https://docs.aws.amazon.com/lambda/latest/dg/configuration-codesigning.html",
)
_TRACED: Final = Document(
    "Visualize Lambda function invocations using AWS X-Ray",
    "https://docs.aws.amazon.com/lambda/latest/dg/services-xray.html",
)
_EVALUATION: Final = Document("Policy evaluation logic", f"{_IAM}/reference_policies_evaluation-logic.html")
_OPERATORS: Final = Document(
    "IAM JSON policy elements: Condition operators", f"{_IAM}/reference_policies_elements_condition_operators.html"
)
_NAMES: Final = Document("Name type", f"{_CFN}/TemplateReference/aws-properties-name.html")

DEPLOYMENT_FACTS: Final = (
    Fact(
        name="iam-eventually-consistent",
        sentence="A role or policy that was just made or changed may be refused for seconds to minutes, and one that "
        "was taken away may still be good: `AccessDenied` passes in that time.",
        source=_DELAY,
        read="2023-06",
        relied_on_by=(
            "aws/faults.py:is_final",
            "docs/operate/deploy.md",
            "sim/weather/new_permissions.py:NewPermissions",
        ),
        words=("AWS::IAM::Role",),
        engines=like(deliveries="as the weather `new-permissions`"),
    ),
    Fact(
        name="iam-inline-policy-size",
        sentence="All inline policies of a role have at most 10,240 characters together, white space apart.",
        source=_QUOTAS,
        relied_on_by=("deploy/arns.py:LARGEST_POLICY", "deploy/resource_policies.py:_of_scheduler"),
        limit=10_240,
        words=("PolicyDocument", "PolicyName"),
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="iam-policies-of-a-role",
        sentence="A role has at most 10 managed policies, unless the account's quota is raised.",
        source=_QUOTAS,
        read="2026-11",
        relied_on_by=("deploy/options.py:POLICIES_OF_A_ROLE",),
        limit=10,
        words=("ManagedPolicyArns",),
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="iam-most-policies-of-a-role",
        sentence="The quota of a role's managed policies is raised to 25 at most.",
        source=_QUOTAS,
        read="2026-11",
        relied_on_by=("deploy/options.py:MOST_POLICIES",),
        limit=25,
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="iam-policies-of-the-account",
        sentence="A role takes managed policies of its own account and those of AWS, as policies and as its boundary.",
        source=_BOUNDARY,
        relied_on_by=("deploy/option_arns.py:arn_problems",),
        engines=NOWHERE,
        by_hand="The refusal shows at deployment. It needs two accounts.",
    ),
    Fact(
        name="iam-role-name",
        sentence="The name of a role has at most 64 characters.",
        source=_QUOTAS,
        relied_on_by=("deploy/resource_policies.py:_LONGEST_ROLE",),
        limit=64,
        engines=NOWHERE,
        by_hand="`aws iam create-role` with a longer one shows the refusal.",
    ),
    Fact(
        name="iam-role-names",
        sentence="CloudFormation makes a role with a `RoleName` if who deploys says `CAPABILITY_NAMED_IAM`. An account "
        "has each name of a role once, in all regions and whatever its case.",
        source=Document(
            "AWS::IAM::Role",
            "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-iam-role.html",
        ),
        read="2026-11",
        relied_on_by=("deploy/at_aws.py:rule_notes",),
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="iam-denied-codes",
        sentence="A denial is 400 or 403 by service, and its code `AccessDenied`, `AccessDeniedException` or, at SNS, "
        "`AuthorizationError`.",
        source=Document("Troubleshooting access denied error messages", f"{_IAM}/troubleshoot_access-denied.html"),
        relied_on_by=(
            "sim/limits/refusing.py:_DENIALS",
            "deploy/live.py:_DENIED",
            "aws/dead_letter_queue.py:explained",
        ),
        words=("AccessDenied", "AccessDeniedException", "AuthorizationError"),
        engines=like("memory", "moto"),
        by_hand="Needs a role of its own for each service; the probe of IAM's delay shows the code of one.",
    ),
    Fact(
        name="iam-simulate",
        sentence="`SimulatePrincipalPolicy` says what a role's own policies allow; policies of resources and of the "
        "organisation are not in it unless they are handed over.",
        source=_SIMULATE,
        relied_on_by=("deploy/live.py:LiveAccount",),
        words=(
            *("PolicySourceArn", "EvalDecision", "EvaluationResults", "EvalActionName", "NoSuchEntity"),
            *("ActionNames", "ResourceArns", "ContextEntries", "ContextKeyName", "ContextKeyType", "ContextKeyValues"),
        ),
        engines=NOWHERE,
        by_hand="`flowguard doctor` shows its answers.",
    ),
    Fact(
        name="cloudformation-exports",
        sentence="`ListExports` returns what stacks of the account and region export, a hundred at a time. "
        "`Fn::ImportValue` takes the name of an export.",
        source=_EXPORTS,
        read="2026-11",
        relied_on_by=("deploy/live.py:LiveAccount", "deploy/imports.py:Import", "deploy/exports.py:exported"),
        words=("ListExports", "Exports"),
        engines=like("ministack"),
        by_hand="A stack that imports what another exports shows it.",
    ),
    Fact(
        name="cloudformation-dynamic-references",
        sentence="CloudFormation takes `{{resolve:…}}` in a property for a reference to a parameter or secret, and "
        "writes its value there, also within a longer text. No page says how to write such a text itself.",
        source=_DYNAMIC,
        read="2026-11",
        relied_on_by=("every.py:Every.input", "docs/guides/by-the-clock.md"),
        engines=NOWHERE,
        by_hand="A stack with a schedule whose payload has such a text shows it.",
    ),
    Fact(
        name="iam-service-principals",
        sentence="`aws:PrincipalIsAWSService` tells a service that calls in its own name from everybody else, so that "
        "a policy can deny the others alone.",
        source=_SERVICES,
        read="2026-11",
        relied_on_by=(
            "deploy/resource_policies.py:_but",
            "deploy/planned/statements.py:names_service",
            "docs/explain/trust.md",
        ),
        engines=NOWHERE,
        by_hand="A queue that a topic feeds, and that is denied to others, shows it.",
    ),
    Fact(
        name="iam-deny-wins",
        sentence="What a statement of any policy denies, no other allows: also the policy of a queue.",
        source=_EVALUATION,
        relied_on_by=(
            "deploy/queue_policy_checks.py:check_queue_policy",
            "deploy/planned/policies.py:denied_to",
            "deploy/planned/policies.py:lets_service",
        ),
        words=("Policy",),
        engines=NOWHERE,
        by_hand="A queue whose policy denies a role shows it.",
    ),
    Fact(
        name="iam-across-accounts",
        sentence="A principal of another account may use a resource only where a policy of the resource allows it to "
        "the principal or its account, and its own policies allow it too.",
        source=_ACROSS,
        read="2026-11",
        relied_on_by=(
            "deploy/closed_queues.py:senders_elsewhere",
            "deploy/foreign_policies.py:policies_of_others",
            "docs/operate/security.md",
        ),
        engines=NOWHERE,
        by_hand="It needs two accounts.",
    ),
    Fact(
        name="ssm-across-accounts",
        sentence="A parameter of the advanced tier is shared with other accounts by AWS RAM; a `SecureString` under a "
        "customer's key alone, which is shared apart.",
        source=Document(
            "PutResourcePolicy",
            "https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_PutResourcePolicy.html",
        ),
        read="2026-11",
        relied_on_by=("deploy/existing_notes.py:existing_notes", "docs/operate/security.md"),
        engines=NOWHERE,
        by_hand="It needs two accounts.",
    ),
    Fact(
        name="secrets-across-accounts",
        sentence="A secret is read from another account where its policy and that of its key let it: a customer's key, "
        "as AWS's own lets no other account.",
        source=Document(
            "Access AWS Secrets Manager secrets from a different account",
            "https://docs.aws.amazon.com/secretsmanager/latest/userguide/auth-and-access_examples_cross.html",
        ),
        relied_on_by=("deploy/existing_notes.py:existing_notes", "docs/operate/security.md"),
        engines=NOWHERE,
        by_hand="It needs two accounts.",
    ),
    Fact(
        name="iam-absent-keys",
        sentence="Where a request does not have the key of a condition, an operator with `Not` or `IfExists` holds, "
        "and others do not.",
        source=_OPERATORS,
        relied_on_by=("deploy/planned/statements.py:holds",),
        engines=NOWHERE,
        by_hand="A queue whose policy denies by `aws:SourceArn` shows it.",
    ),
    Fact(
        name="iam-passed-to",
        sentence="`iam:PassedToService` is the service that a passed role is for, as in `scheduler.amazonaws.com`.",
        source=_PASSED,
        relied_on_by=("deploy/arns.py:SCHEDULER",),
        engines=NOWHERE,
        by_hand="A role that is passed to another service shows it.",
    ),
    Fact(
        name="scheduler-takes-a-role-for-its-group",
        sentence="EventBridge Scheduler takes a role with the account as `aws:SourceAccount` and the ARN of the "
        "schedule's group as `aws:SourceArn`, already when the schedule is made.",
        source=_DEPUTY,
        relied_on_by=("deploy/template.py:Template.scheduler_trust",),
        engines=NOWHERE,
        by_hand="The refusal shows when the first schedule is made.",
    ),
    Fact(
        name="lambda-takes-a-role-of-its-account",
        sentence="A trust policy may compare `aws:SourceAccount`: where Lambda takes a role, the function's account.",
        source=Document(
            "Working with AWS managed policies in the execution role",
            "https://docs.aws.amazon.com/lambda/latest/dg/permissions-managed-policies.html",
        ),
        read="2026-11",
        relied_on_by=("deploy/role_checks.py:check_roles",),
        engines=NOWHERE,
        by_hand="A function whose role compares it shows it.",
    ),
    Fact(
        name="role-path-in-arn",
        sentence="The ARN of a role or policy has its path before the name, `role/shop/place-order`. A path begins and "
        "ends with `/`.",
        source=Document(
            "IAM identifiers", "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html"
        ),
        read="2026-11",
        relied_on_by=("deploy/planned/resources.py:Resource.arn", "deploy/planned/resources.py:Resources"),
        engines=NOWHERE,
        by_hand="A role with a path shows it.",
    ),
    Fact(
        name="role-path-is-kept",
        sentence="The path of a role is said when it is made: `UpdateRole` changes its description and its longest "
        "session alone.",
        source=Document("UpdateRole", "https://docs.aws.amazon.com/IAM/latest/APIReference/API_UpdateRole.html"),
        read="2026-11",
        relied_on_by=("deploy/role_checks.py:check_roles",),
        engines=NOWHERE,
        by_hand="A change of the path shows as a role made anew.",
    ),
    Fact(
        name="role-told-whole",
        sentence="`GetRole` returns a role's path, tags, permissions boundary and trust policy, which boto3 decodes.",
        source=Document("GetRole", "https://docs.aws.amazon.com/IAM/latest/APIReference/API_GetRole.html"),
        read="2026-11",
        relied_on_by=("deploy/live.py:LiveAccount.role", "deploy/live.py:LiveAccount.trust"),
        words=("AssumeRolePolicyDocument",),
        engines=NOWHERE,
        by_hand="Run flowguard doctor on a deployment: `trust-missing` would name each role.",
    ),
    Fact(
        name="function-told-traced",
        sentence="`GetFunctionConfiguration` returns `TracingConfig` with the mode `Active` or `PassThrough`; "
        "`ListTags` the tags of a function by its ARN.",
        source=Document(
            "GetFunctionConfiguration",
            "https://docs.aws.amazon.com/lambda/latest/api/API_GetFunctionConfiguration.html",
        ),
        read="2026-11",
        relied_on_by=("deploy/live.py:LiveAccount.tags_of_function", "deploy/security_checks.py:check_security"),
        words=("TracingConfig", "ListTags"),
        engines=NOWHERE,
        by_hand="Run flowguard doctor on a deployment with tracing and tags.",
    ),
    Fact(
        name="role-boundary",
        sentence="A role may do what its policies and its permissions boundary both allow.",
        source=_BOUNDARY,
        relied_on_by=("deploy/security_checks.py:check_security",),
        words=("PermissionsBoundaryArn", "RoleName"),
        engines=NOWHERE,
        by_hand="A role with a boundary that allows nothing shows it.",
    ),
    Fact(
        name="function-code-signing",
        sentence="A function with a code signing configuration takes code that one of its signers has signed; of other "
        "code the configuration says whether it is refused or only noted.",
        source=_SIGNED,
        relied_on_by=("deploy/cloudformation.py:_CloudFormation", "deploy/security_checks.py:check_security"),
        words=("CodeSigningConfigArn",),
        engines=NOWHERE,
        by_hand="It takes a signing profile.",
    ),
    Fact(
        name="sqs-moves-in-its-own-name",
        sentence="SQS moves a record to a dead-letter queue also where the policy of that denies `SendMessage` to all "
        "roles.",
        source=Document(
            "Using dead-letter queues in Amazon SQS",
            "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html",
        ),
        relied_on_by=("deploy/resource_policies.py:_but", "docs/explain/trust.md"),
        engines=NOWHERE,
        by_hand="The page does not say it. A queue of dead letters of a template, and a record that is received too "
        "often, show it.",
    ),
    Fact(
        name="cfn-retain",
        sentence="A resource under `DeletionPolicy` `Retain` stays when it leaves the template, nobody's; a stack that "
        "makes one of that name later fails. What a change replaces stays under `UpdateReplacePolicy` alone.",
        source=_DELETION,
        read="2026-11",
        relied_on_by=("deploy/cloudformation.py:_KEEP", "docs/operate/deploy.md"),
        words=("AWS::DynamoDB::Table", "DeletionPolicy", "UpdateReplacePolicy"),
        engines=NOWHERE,
        by_hand="A stack of one queue shows it.",
    ),
    Fact(
        name="cfn-retain-except-on-create",
        sentence="`RetainExceptOnCreate` deletes what the operation that is rolled back has made itself, so that a "
        "second first deployment meets nothing. That holds of an update too, whatever lies in the new queue by then.",
        source=_DELETION,
        read="2026-11",
        relied_on_by=("deploy/cloudformation.py:_KEEP", "docs/operate/deploy.md", "docs/operate/upgrading.md"),
        words=("RetainExceptOnCreate",),
        engines=NOWHERE,
        by_hand="A stack that fails shows it.",
    ),
    Fact(
        name="cfn-removed-is-deleted",
        sentence="A resource that leaves the template is deleted with what it holds: a queue with its messages.",
        source=_DELETION,
        read="2026-11",
        relied_on_by=("docs/operate/deploy.md", "docs/operate/upgrading.md"),
        words=("AWS::SQS::Queue",),
        engines=NOWHERE,
        by_hand="A stack of one queue shows it.",
    ),
    Fact(
        name="cfn-order",
        sentence="Resources are made in the order of their references and of `DependsOn`, others at once: a "
        "subscription may deliver before its queue's policy is there.",
        source=_DEPENDS,
        relied_on_by=(
            "deploy/cloudformation.py:_CloudFormation._after_policies",
            "deploy/cloudformation.py:_CloudFormation._after_what_it_uses",
        ),
        words=("AWS::SQS::QueuePolicy", "DependsOn"),
        engines=NOWHERE,
        by_hand="It shows seldom.",
    ),
    Fact(
        name="cfn-resources",
        sentence="A template has at most 500 resources.",
        source=_LIMITS,
        relied_on_by=("deploy/cloudformation.py:MOST_RESOURCES",),
        limit=500,
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="cfn-parameters",
        sentence="A template has at most 200 parameters, and at most 200 outputs.",
        source=_LIMITS,
        read="2026-11",
        relied_on_by=("deploy/nested_stacks.py:MOST_PARAMETERS",),
        limit=200,
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="cfn-nested",
        sentence="A nested stack is a resource of its parent, with a `TemplateURL`. Its outputs are attributes "
        "`Outputs.…` of that resource. Limits hold for each template of its own. `aws cloudformation package` uploads "
        "a template that `TemplateURL` names as a file.",
        source=_NESTED,
        relied_on_by=("deploy/nested_stacks.py:split", "deploy/planned/intrinsics.py:Intrinsics.output"),
        words=("AWS::CloudFormation::Stack", "TemplateURL", "Metadata"),
        engines=like("ministack", moto="from a bucket of its own"),
        by_hand="A deployment of `flowguard iac --split` shows it.",
    ),
    Fact(
        name="cfn-size",
        sentence="A template has at most 51,200 bytes in a request, and 1 MB in a bucket.",
        source=_LIMITS,
        relied_on_by=("deploy/cloudformation.py:LARGEST_TEMPLATE",),
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="tag-value-length",
        sentence="The value of a tag has at most 256 characters.",
        source=_TAGS,
        relied_on_by=("deploy/options.py:LONGEST_TAG",),
        limit=256,
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="tags-of-a-role",
        sentence="Keys of a role's tags that differ in capital letters alone are one key: `CreateRole` refuses both.",
        source=Document("Tags for IAM resources", "https://docs.aws.amazon.com/IAM/latest/UserGuide/id_tags.html"),
        relied_on_by=("deploy/options.py:DeployOptions",),
        engines=NOWHERE,
        by_hand="Shows at deployment.",
    ),
    Fact(
        name="tags-of-a-resource",
        sentence="A resource has at most 50 tags, and CloudFormation sets some of its own.",
        source=_TAGGING,
        relied_on_by=("deploy/options.py:MOST_TAGS",),
        engines=NOWHERE,
        by_hand="The refusal shows at deployment. The template leaves ten free.",
    ),
    Fact(
        name="function-in-a-vpc",
        sentence="Lambda connects a function to a VPC with the permissions of the function's role, which may make, "
        "see and delete network interfaces. Without them the function is not made.",
        source=_VPC,
        relied_on_by=("deploy/permissions.py:IN_VPC",),
        words=("VpcConfig", "SubnetIds", "SecurityGroupIds"),
        engines=NOWHERE,
        by_hand="The refusal shows at deployment. No engine has networks.",
    ),
    Fact(
        name="data-api-permissions",
        sentence="The Data API needs of its caller `rds-data:BeginTransaction`, `ExecuteStatement`, "
        "`CommitTransaction` and `RollbackTransaction` on the cluster, and `secretsmanager:GetSecretValue` on the "
        "secret with the database's user, which it reads in the caller's name.",
        source=_DATA_API,
        read="2026-11",
        relied_on_by=("deploy/sql_uses.py:DATA_API", "deploy/sql_uses.py:READS_USER"),
        engines=NOWHERE,
        by_hand="A denial names the action that is missing. No engine has the Data API.",
    ),
    Fact(
        name="function-traced",
        sentence="Lambda sends the traces of a function to X-Ray with the permissions of the function's role; X-Ray "
        "has no resources that a policy could name.",
        source=_TRACED,
        relied_on_by=("deploy/permissions.py:TRACED",),
        words=("TracingConfig", "ListTags"),
        engines=NOWHERE,
        by_hand="A trace that is missing shows it.",
    ),
    Fact(
        name="tag-lists-resources",
        sentence="`GetResources` lists the resources of a region that have a tag, and those that had one.",
        source=_TAGS,
        read="2026-11",
        relied_on_by=("deploy/live.py:LiveAccount",),
        words=("GetResources", "TagFilters", "ResourceTypeFilters", "ResourceTagMappingList", "ResourceARN"),
        engines=NOWHERE,
        by_hand="`flowguard doctor` asks it.",
    ),
    Fact(
        name="table-told-tagged",
        sentence="`ListTagsOfResource` returns the tags of a table by its ARN, in pages.",
        source=Document(
            "ListTagsOfResource",
            "https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ListTagsOfResource.html",
        ),
        read="2026-11",
        relied_on_by=("deploy/live.py:LiveAccount.tags_of_table",),
        words=("ListTagsOfResource", "ResourceArn", "TableArn"),
        engines=NOWHERE,
        by_hand="Run flowguard doctor on a deployment whose options say tags.",
    ),
    Fact(
        name="cfn-names-collide",
        sentence="A name that another stack of the account has in the region already fails the deployment; one that "
        "changes replaces its resource.",
        source=_NAMES,
        relied_on_by=("deploy/cloudformation.py:_CloudFormation", "deploy/options.py:SettingsOptions"),
        words=("TableName", "QueueName", "TopicName", "FunctionName"),
        engines=NOWHERE,
        by_hand="A second stack shows it.",
    ),
    Fact(
        name="cfn-code-by-key",
        sentence="A function's code is taken again only when the bucket, key or version in the template changes.",
        source=_REPLACE,
        relied_on_by=("docs/operate/deploy.md",),
        words=("AWS::Serverless::Function", "S3Bucket", "S3Key"),
        engines=NOWHERE,
        by_hand="A stack of one function shows it.",
    ),
)
