#include "store/store_options.h"

#include "base/options.h"

struct raw {
    struct store_config c;
    int64_t stall_ms;
};

#define S(field) offsetof(struct raw, field)
static const struct option rows[] = {
    {"url", OPTION_STRING, S(c.url), NULL, 0, 0, NULL, "file:///dir or s3://bucket/prefix"},
    {"endpoint", OPTION_STRING, S(c.endpoint), "null", 0, 0, NULL, "http[s]://HOST[:PORT] of an S3 server; default Amazon's"},
    {"region", OPTION_STRING, S(c.region), "null", 0, 0, NULL, "of an S3 store; default AWS_REGION, else us-east-1"},
    {"path_style", OPTION_BOOL, S(c.path_style), "false", 0, 0, NULL, "ENDPOINT/BUCKET instead of BUCKET.ENDPOINT"},
    {"anonymous", OPTION_BOOL, S(c.anonymous), "false", 0, 0, NULL, "unsigned requests, for public buckets"},
    {"requester_pays", OPTION_BOOL, S(c.requester_pays), "false", 0, 0, NULL, "agree to pay for requests and transfers"},
    {"credentials", OPTION_STRING, S(c.credentials), "null", 0, 0, NULL,
     "env, file:PATH#profile or systemd:NAME; default env, then ~/.aws/credentials"},
    {"write", OPTION_STRING, S(c.write), "null", 0, 0, NULL,
     "prefix below which jobs may write (checkpoint.upload); default: only jobs of the daemon's own user may write"},
    {"ca_file", OPTION_STRING, S(c.ca_file), "null", 0, 0, NULL,
     "PEM file of the CA that signed the server's certificate; default AWS_CA_BUNDLE, else those of the system"},
    {"stall", OPTION_DURATION, S(stall_ms), "20s", 1000, 3600000, NULL, "a transfer without a byte for so long is begun again"},
};
static const struct option_table table = OPTION_TABLE(rows);

/* Keys that would do nothing. */
static int check_idle(const struct raw *raw, const struct yaml_node *node, const char *file, struct err *err) {
    const struct store_config *c = &raw->c;
    const struct {
        const char *key;
        bool set;
    } of_s3[] = {
        {"endpoint", c->endpoint},     {"region", c->region},       {"credentials", c->credentials},      {"ca_file", c->ca_file},
        {"path_style", c->path_style}, {"anonymous", c->anonymous}, {"requester_pays", c->requester_pays}};
    for (size_t i = 0; str_starts(c->url, "file:") && i < sizeof of_s3 / sizeof *of_s3; i++)
        if (of_s3[i].set)
            return options_error(node, file, err, "store %s: %s does nothing for a directory; leave it out", node->key,
                                 of_s3[i].key);
    if (c->anonymous && c->credentials)
        return options_error(node, file, err, "store %s: anonymous and credentials contradict each other; leave one out",
                             node->key);
    return 0;
}

int store_options_read(const struct yaml_node *node, const char *file, struct arena *arena, struct store_config *ret,
                       struct err *err) {
    struct raw raw = {0};
    if (node->type != YAML_MAPPING)
        return options_error(node, file, err, "store %s: expected a mapping with url", node->key);
    int rc = options_read(&table, node, file, arena, &raw, err);
    if (rc)
        return rc;
    if (!str_starts(raw.c.url, "file:///") && !str_starts(raw.c.url, "s3://"))
        return options_error(node, file, err, "store %s: url '%s'; expected file:///dir or s3://bucket/prefix", node->key,
                             raw.c.url);
    if ((rc = check_idle(&raw, node, file, err)))
        return rc;
    raw.c.stall_s = (int)(raw.stall_ms / 1000);
    *ret = raw.c;
    return 0;
}
