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
_SQS_KMS: Final = Document(
    "Amazon SQS key management",
    "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html",
)

KEY_FACTS: Final = (
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
        by_hand="A key costs a dollar a month.",
    ),
)
