"""What KMS, Parameter Store and Secrets Manager do with the keys that sign and seal."""

from __future__ import annotations

from typing import Final

from flowguard.aws_facts.fact import NOWHERE, Document, Fact, like

_SSM: Final = Document(
    "GetParameter", "https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetParameter.html"
)
_RATE: Final = Document(
    "AWS Systems Manager endpoints and quotas", "https://docs.aws.amazon.com/general/latest/gr/ssm.html"
)
_SECRET: Final = Document(
    "GetSecretValue", "https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_GetSecretValue.html"
)
_ROTATE: Final = Document(
    "What's in a Secrets Manager secret?",
    "https://docs.aws.amazon.com/secretsmanager/latest/userguide/whats-in-a-secret.html",
)
_GENERATED: Final = Document(
    "AWS::SecretsManager::Secret",
    "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-secretsmanager-secret.html",
)
_KMS: Final = Document("KMS key states", "https://docs.aws.amazon.com/kms/latest/developerguide/key-state.html")
_DATA_KEYS: Final = Document(
    "GenerateDataKey", "https://docs.aws.amazon.com/kms/latest/APIReference/API_GenerateDataKey.html"
)
_DECRYPT: Final = Document("Decrypt", "https://docs.aws.amazon.com/kms/latest/APIReference/API_Decrypt.html")
_KMS_CONDITIONS: Final = Document(
    "AWS KMS condition keys", "https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html"
)
_ALIASES: Final = Document(
    "Use aliases to control access to KMS keys",
    "https://docs.aws.amazon.com/kms/latest/developerguide/alias-authorization.html",
)
_SQS_KMS: Final = Document(
    "Amazon SQS key management",
    "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html",
)
_TABLE_KMS: Final = Document(
    "DynamoDB encryption at rest usage notes",
    "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html",
)
_SNS_KMS: Final = Document(
    "Managing Amazon SNS encryption keys and costs",
    "https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html",
)
_LOGS_KMS: Final = Document(
    "Encrypt log data in CloudWatch Logs using AWS Key Management Service",
    "https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html",
)
_LAMBDA_KMS: Final = Document(
    "Securing Lambda environment variables",
    "https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars-encryption.html",
)
_S3_KMS: Final = Document(
    "Using server-side encryption with AWS KMS keys",
    "https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html",
)
_SECRET_KMS: Final = Document(
    "Secret encryption and decryption in AWS Secrets Manager",
    "https://docs.aws.amazon.com/secretsmanager/latest/userguide/security-encryption.html",
)
_SCHEDULE_KMS: Final = Document(
    "Using identity-based policies in EventBridge Scheduler",
    "https://docs.aws.amazon.com/scheduler/latest/UserGuide/security_iam_id-based-policy-examples.html",
)
_VIA: Final = Document(
    "AWS KMS condition keys", "https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html"
)
_OTHER_ACCOUNT: Final = Document(
    "Allowing users in other accounts to use a KMS key",
    "https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-modifying-external-accounts.html",
)
_KEY_POLICIES: Final = Document(
    "Default key policy", "https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-default.html"
)
_A_DOLLAR: Final = "A key costs a dollar a month."
_PRINCIPALS: Final = Document(
    "class ServicePrincipal of the AWS Cloud Development Kit",
    "https://docs.aws.amazon.com/cdk/api/v2/docs/aws-cdk-lib.aws_iam.ServicePrincipal.html",
)

KEY_FACTS: Final = (
    Fact(
        name="secret-deleted-later",
        sentence="A secret that is to be deleted has a `DeletedDate`, and its value cannot be read unless it is "
        "restored.",
        source=Document(
            "DescribeSecret",
            "https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_DescribeSecret.html",
        ),
        read="2026-11",
        relied_on_by=("deploy/live.py:LiveAccount.has_secret",),
        words=("DeletedDate",),
        engines=like("moto", "ministack"),
    ),
    Fact(
        name="ssm-missing-parameter",
        sentence="A parameter that does not exist is `ParameterNotFound`.",
        source=_SSM,
        read="2026-11",
        relied_on_by=("aws/signing_keys.py:_parameter",),
        words=("ParameterNotFound", "Parameter", "WithDecryption", "Value", "Name"),
        engines=like("moto", "ministack"),
    ),
    Fact(
        name="ssm-rate",
        sentence="An account reads 40 parameters a second in a region unless it pays for more; then "
        "`ThrottlingException`.",
        source=_RATE,
        relied_on_by=("aws/signing_keys.py:_keyring", "wire/signing.py:Keyring"),
        limit=40,
        engines=NOWHERE,
        by_hand="A throttled account disturbs what else runs in it.",
    ),
    Fact(
        name="ssm-parameter-size",
        sentence="A standard parameter has at most 4 KB.",
        source=_RATE,
        relied_on_by=("docs/explain/trust.md",),
        limit=4_096,
        engines=like(moto="takes more", ministack="takes more"),
    ),
    Fact(
        name="ssm-decryption",
        sentence="A SecureString is returned in clear only with `WithDecryption`, to a caller who may use its key.",
        source=_SSM,
        read="2026-11",
        relied_on_by=("aws/signing_keys.py:_parameter", "deploy/permissions.py:permissions_of"),
        words=("GetParameter", "LastModifiedDate", "InvalidKeyId", "ParameterVersionNotFound"),
        engines=like("moto", "ministack"),
    ),
    Fact(
        name="secrets-current",
        sentence="A secret's value is that of the version AWSCURRENT, unless another is asked for.",
        source=_ROTATE,
        read="2026-11",
        relied_on_by=("aws/signing_keys.py:_secret",),
        words=(
            *(
                "GetSecretValue",
                "SecretId",
                "SecretString",
                "SecretBinary",
                "CreatedDate",
                "AWS::SecretsManager::Secret",
            ),
            *("DecryptionFailure", "InternalServiceError", "InvalidRequestException", "InvalidParameterException"),
        ),
        engines=like("moto", "ministack"),
    ),
    Fact(
        name="secrets-generated",
        sentence="`GenerateSecretString` makes a text of `PasswordLength` characters when the secret is created. An "
        "update that leaves it as it is makes no other.",
        source=_GENERATED,
        read="2026-11",
        relied_on_by=("deploy/cloudformation.py:_CloudFormation.add_secret",),
        words=("PasswordLength", "ExcludePunctuation", "ExcludeCharacters"),
        engines=NOWHERE,
        by_hand="Deploy a stack twice and compare the secret's versions: keys that changed would turn waits away.",
    ),
    Fact(
        name="secrets-missing",
        sentence="A secret that does not exist is `ResourceNotFoundException`; one that is being deleted is "
        "`InvalidRequestException`.",
        source=_SECRET,
        read="2026-11",
        relied_on_by=("aws/signing_keys.py:_secret",),
        engines=like("moto", "ministack"),
    ),
    Fact(
        name="kms-key-states",
        sentence="A key that is disabled or waits for its deletion refuses: what it has sealed cannot be opened, "
        "until it is enabled again.",
        source=_KMS,
        relied_on_by=("docs/operate/operating.md", "aws/dead_letter_queue.py:_explanation"),
        words=("KMS.AccessDeniedException",),
        engines=NOWHERE,
        by_hand="A key cannot be deleted in less than a week.",
    ),
    Fact(
        name="kms-queue-of-customer-key",
        sentence="SNS, EventBridge and the scheduler send to a queue under a customer's key only if that key's policy "
        "lets them; under SQS's own keys no more is needed.",
        source=_SQS_KMS,
        read="2023-06",
        relied_on_by=("deploy/cloudformation.py:_CloudFormation.add_queue", "docs/operate/operating.md"),
        words=("SqsManagedSseEnabled",),
        engines=NOWHERE,
        by_hand=_A_DOLLAR,
    ),
    Fact(
        name="kms-through-services",
        sentence="A service uses a key in the name of whoever calls it, and `kms:ViaService` says which service of "
        "which region that is: a statement with that condition allows no call of KMS itself.",
        source=_VIA,
        relied_on_by=("deploy/key_uses.py:through", "deploy/arns.py:AllowedActions"),
        engines=NOWHERE,
        by_hand=_A_DOLLAR,
    ),
    Fact(
        name="kms-both-policies",
        sentence="The policy of a key lets a role use it by naming the role, or by naming the account, and then the "
        "role's own policies have to allow it too. A key that is made without a policy has one that names the account. "
        "Those of AWS, such as `alias/aws/sqs`, let all of the account use them through their service.",
        source=_KEY_POLICIES,
        relied_on_by=("deploy/key_checks.py:check_keys", "deploy/planned/policies.py:key_lets_role"),
        words=("KeyId", "KeyManager", "KeyMetadata", "AliasName", "TargetKeyId", "DescribeKey", "GetKeyPolicy"),
        engines=like(moto="has the policies, and does not look at them"),
        by_hand=_A_DOLLAR,
    ),
    Fact(
        name="kms-of-queues",
        sentence="Who sends to a queue under a key needs `kms:GenerateDataKey` and `kms:Decrypt`, who receives "
        "`kms:Decrypt`: also of the key of the queue from which SQS moved the message.",
        source=_SQS_KMS,
        read="2023-06",
        relied_on_by=("deploy/key_uses.py:SENDS", "deploy/key_uses.py:READS"),
        words=("KmsMasterKeyId",),
        engines=NOWHERE,
        by_hand=_A_DOLLAR,
    ),
    Fact(
        name="kms-of-a-queues-message",
        sentence="SQS names the queue's ARN as `aws:sqs:arn` in the encryption context of each use of a key, whoever "
        "sends.",
        source=_SQS_KMS,
        relied_on_by=("deploy/key_policy.py:OF_QUEUE",),
        engines=NOWHERE,
        by_hand="CloudTrail shows it. The page does not say it of topics and rules.",
    ),
    Fact(
        name="kms-of-topics",
        sentence="Who publishes to a topic under a key needs `kms:GenerateDataKey` and `kms:Decrypt`.",
        source=_SNS_KMS,
        relied_on_by=("deploy/key_uses.py:SENDS", "deploy/live.py:LiveAccount"),
        engines=NOWHERE,
        by_hand=_A_DOLLAR,
    ),
    Fact(
        name="kms-of-alarms",
        sentence="A service that publishes to a topic under a customer's key in its own name, as CloudWatch does for "
        "alarms (`cloudwatch.amazonaws.com`), needs a statement of the key's policy.",
        source=_SNS_KMS,
        read="2026-11",
        relied_on_by=("deploy/key_policy.py:ALARMS", "deploy/key_checks.py:check_keys"),
        engines=NOWHERE,
        by_hand=_A_DOLLAR,
    ),
    Fact(
        name="kms-of-objects",
        sentence="S3 takes the key of the bucket's default encryption where a request names none. Who puts an object "
        "there needs `kms:GenerateDataKey`, who gets it `kms:Decrypt`.",
        source=_S3_KMS,
        relied_on_by=("deploy/key_uses.py:SENDS", "deploy/live.py:LiveAccount"),
        words=("ServerSideEncryptionConfiguration", "ApplyServerSideEncryptionByDefault", "KMSMasterKeyID"),
        engines=NOWHERE,
        by_hand=_A_DOLLAR,
    ),
    Fact(
        name="kms-of-tables",
        sentence="DynamoDB opens a table's key in the name of each caller, with `kms:Decrypt`, and keeps it for "
        "minutes. Beside it the page asks for `Encrypt`, `ReEncrypt*`, `GenerateDataKey*` and `DescribeKey`, and of "
        "who makes the table for `CreateGrant`, all of it through DynamoDB.",
        source=_TABLE_KMS,
        read="2023-06",
        relied_on_by=("deploy/key_uses.py:ITEMS",),
        words=("SSESpecification", "SSEDescription", "SSEType", "KMSMasterKeyId", "KMSMasterKeyArn"),
        engines=NOWHERE,
        by_hand=_A_DOLLAR,
    ),
    Fact(
        name="kms-of-secrets-and-parameters",
        sentence="Who reads a secret or a SecureString under a customer's key needs `kms:Decrypt` of it.",
        source=_SECRET_KMS,
        relied_on_by=("deploy/key_uses.py:READS", "docs/operate/security.md"),
        words=("KmsKeyId",),
        engines=NOWHERE,
        by_hand=_A_DOLLAR,
    ),
    Fact(
        name="kms-of-variables",
        sentence="Lambda opens a function's variables under a customer's key by a grant that it makes for who deploys; "
        "where the grant is gone, the function's role needs `kms:Decrypt`.",
        source=_LAMBDA_KMS,
        relied_on_by=("deploy/key_uses.py:under_keys", "deploy/key_policy.py:key_policy"),
        words=("KMSKeyArn",),
        engines=NOWHERE,
        by_hand="A role that is made anew under the name of an old one shows it.",
    ),
    Fact(
        name="kms-of-logs",
        sentence="CloudWatch Logs uses a log group's key in its own name: the key's policy has to let "
        "`logs.<region>.amazonaws.com`, with the log group's ARN as `aws:logs:arn` in the encryption context.",
        source=_LOGS_KMS,
        relied_on_by=("deploy/key_policy.py:key_policy",),
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="logs-in-each-partition",
        sentence="CloudWatch Logs is a principal in the domain of its partition, as "
        "`logs.cn-north-1.amazonaws.com.cn`; SQS, SNS, EventBridge, Scheduler, Lambda and S3 end with `amazonaws.com` "
        "everywhere. The page has the function; the table is in the source of `region-info`.",
        source=_PRINCIPALS,
        read="2026-11",
        relied_on_by=("deploy/queue_arns.py:domain_of",),
        engines=NOWHERE,
        by_hand="It needs an account in China.",
    ),
    Fact(
        name="kms-of-schedules",
        sentence="A schedule's message is kept under the key that `CreateSchedule` names. Who makes it needs "
        "`kms:DescribeKey`, `kms:GenerateDataKey` and `kms:Decrypt`; the role that sends it `kms:Decrypt`, with the "
        "schedule's ARN as `aws:scheduler:schedule:arn` in the encryption context.",
        source=_SCHEDULE_KMS,
        relied_on_by=(
            "aws/schedules.py:Schedules",
            "deploy/key_uses.py:SCHEDULES",
            "deploy/scheduler_permissions.py:OF_SCHEDULE",
        ),
        words=("KmsKeyArn",),
        engines=like(memory="notes it", moto="notes it"),
        by_hand=_A_DOLLAR,
    ),
    Fact(
        name="kms-data-keys",
        sentence="`GenerateDataKey` answers a key of 32 bytes for `AES_256` as it is and sealed, with the ARN of the "
        "key that has sealed it. It is opened by `Decrypt` with the same encryption context alone.",
        source=_DATA_KEYS,
        relied_on_by=("aws/data_keys.py:KmsDataKeys", "codecs/encrypted.py:Encrypted"),
        words=(
            "AES_256",
            "GenerateDataKey",
            "Decrypt",
            "EncryptionContext",
            "CiphertextBlob",
            "Plaintext",
            "KeySpec",
            "KeyId",
        ),
        engines=NOWHERE,
        by_hand=_A_DOLLAR,
    ),
    Fact(
        name="kms-wrong-key",
        sentence="`Decrypt` that names another key than the one that has sealed the data key answers "
        "`IncorrectKeyException`. What was changed, or is opened in another encryption context, is an "
        "`InvalidCiphertextException`.",
        source=_DECRYPT,
        relied_on_by=("aws/data_keys.py:_OF_ANOTHER_KEY", "aws/data_keys.py:_NOT_OPENED"),
        words=("IncorrectKeyException", "InvalidCiphertextException"),
        engines=NOWHERE,
        by_hand=_A_DOLLAR,
    ),
    Fact(
        name="kms-longest-data-key",
        sentence="`Decrypt` takes a `CiphertextBlob` of 1 to 6,144 bytes. What is malformed in a call is a "
        "`ValidationException`.",
        source=_DECRYPT,
        read="2026-11",
        relied_on_by=("aws/data_keys.py:LONGEST_DATA_KEY", "aws/data_keys.py:_OF_ANOTHER_KEY"),
        limit=6_144,
        engines=NOWHERE,
        by_hand=_A_DOLLAR,
    ),
    Fact(
        name="kms-conditions",
        sentence="A policy allows a call of KMS for one encryption context with `kms:EncryptionContext:<its name>`.",
        source=_KMS_CONDITIONS,
        relied_on_by=("deploy/codec_uses.py:FLOW",),
        engines=NOWHERE,
        by_hand=_A_DOLLAR,
    ),
    Fact(
        name="kms-request-alias",
        sentence="A policy allows a call of KMS that names its key by an alias with `kms:RequestAlias`. An alias that "
        "is the resource of a statement stands for the alias, and for no key.",
        source=_ALIASES,
        read="2026-11",
        relied_on_by=("deploy/codec_uses.py:ALIAS",),
        words=("kms:RequestAlias",),
        engines=NOWHERE,
        by_hand=_A_DOLLAR,
    ),
    Fact(
        name="kms-of-another-account",
        sentence="A key of another account is used where its policy names the user's account or role, and the user's "
        "own policies allow it too.",
        source=_OTHER_ACCOUNT,
        relied_on_by=("deploy/key_policy.py:key_policy", "docs/operate/security.md"),
        engines=NOWHERE,
        by_hand="It takes two accounts.",
    ),
    Fact(
        name="kms-policy-size",
        sentence="The policy of a key has at most 32 KB.",
        source=Document(
            "Resource quotas", "https://docs.aws.amazon.com/kms/latest/developerguide/resource-limits.html"
        ),
        read="2026-11",
        relied_on_by=("deploy/key_policy.py:LARGEST_KEY_POLICY",),
        limit=32_768,
        engines=NOWHERE,
        by_hand="`aws kms put-key-policy` with a longer one shows the refusal.",
    ),
)
