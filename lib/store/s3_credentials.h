/* s3_credentials: sources of the key of an S3 store. Any thread. */
#pragma once

#include "base/base.h"

struct s3_credentials {
    char id[160], secret[256], token[8192]; /* token "" = none */
    int64_t expires_s;                      /* since 1970; 0 = unknown */
    char source[256];                       /* where they are from, for people */
    bool remote;                            /* from the metadata service (store/s3_imds.h); id is "" until it has answered */
};

/* spec: NULL = AWS_ACCESS_KEY_ID and related variables of the environment, else the shared file ($AWS_SHARED_CREDENTIALS_FILE or
 * ~/.aws/credentials, then $AWS_CONFIG_FILE or ~/.aws/config, profile $AWS_PROFILE or default), else the metadata service unless
 * $AWS_EC2_METADATA_DISABLED is "true". An identity that the environment names and that cannot be used (web identity, container
 * credentials, a profile that is nowhere or takes a role, single sign-on or a program) is an error, never a broader one instead;
 * "env"; "file:PATH#profile"; "systemd:NAME" (a file of that form in $CREDENTIALS_DIRECTORY); "imds". Reads files but never the
 * network. UNAUTHENTICATED names the sources tried and the fix. */
int s3_credentials_load(const char *spec, struct s3_credentials *ret, struct err *err);
