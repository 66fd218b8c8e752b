#include "store/s3_credentials.h"

enum { FILE_MAX = 1 << 20, PATH_BYTES = 4096 };

static int too_long(const char *where, struct err *err) {
    return err_set(err, ERR_UNAUTHENTICATED, "%s: a credential is longer than any S3 server gives out", where);
}

/* NOT_FOUND when the environment holds no key. */
static int from_environment(struct s3_credentials *ret, struct err *err) {
    const char *id = getenv("AWS_ACCESS_KEY_ID"), *secret = getenv("AWS_SECRET_ACCESS_KEY"), *token = getenv("AWS_SESSION_TOKEN");
    if (!id || !*id)
        return err_set(err, ERR_NOT_FOUND, "AWS_ACCESS_KEY_ID is not set");
    if (!secret || !*secret)
        return err_set(err, ERR_UNAUTHENTICATED, "AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not; set both");
    str_copy(ret->source, sizeof ret->source, "AWS_ACCESS_KEY_ID of the environment");
    bool fits = str_copy(ret->id, sizeof ret->id, id) && str_copy(ret->secret, sizeof ret->secret, secret) &&
                str_copy(ret->token, sizeof ret->token, token ? token : "");
    return fits ? 0 : too_long("environment", err);
}

static char *trim(char *text) {
    text += strspn(text, " \t\r");
    size_t len = strlen(text);
    while (len && strchr(" \t\r", text[len - 1]))
        text[--len] = '\0';
    return text;
}

/* What a profile of a file says. */
struct profile {
    bool found;
    char other[32]; /* the key of an identity that is not used here; "" = none */
};

/* Keys of identities that come from somewhere else. */
static bool is_other(const char *key) {
    static const char *const others[] = {"role_arn", "sso_session", "sso_start_url", "credential_process",
                                         "web_identity_token_file"};
    return STR_AMONG(key, others) >= 0;
}

/* Take "[profile]" or "[profile NAME]" lines and "key = value" below the wanted one. False: a value is too long. */
static bool read_profile(char *text, const char *profile, struct profile *about, struct s3_credentials *ret) {
    bool inside = false, fits = true;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        line = trim(line);
        if (*line == '[') {
            char *end = strchr(line, ']');
            if (end)
                *end = '\0';
            const char *name = trim(line + 1);
            inside = !strcmp(str_starts(name, "profile ") ? name + 8 : name, profile);
            about->found |= inside;
            continue;
        }
        char *equals = strchr(line, '=');
        if (!inside || !equals || *line == '#' || *line == ';')
            continue;
        *equals = '\0';
        const char *key = trim(line), *value = trim(equals + 1);
        if (!strcmp(key, "aws_access_key_id"))
            fits = str_copy(ret->id, sizeof ret->id, value) && fits;
        else if (!strcmp(key, "aws_secret_access_key"))
            fits = str_copy(ret->secret, sizeof ret->secret, value) && fits;
        else if (!strcmp(key, "aws_session_token"))
            fits = str_copy(ret->token, sizeof ret->token, value) && fits;
        else if (is_other(key))
            str_copy(about->other, sizeof about->other, key);
    }
    return fits;
}

/* Reads a profile of a file; what it does not say stays. */
static int look_into(const char *path, const char *profile, struct profile *about, struct s3_credentials *ret, struct err *err) {
    char *text = NULL;
    size_t len = 0;
    int rc = fsio_read(path, FILE_MAX, &text, &len, err);
    if (rc)
        return rc;
    bool fits = read_profile(text, profile, about, ret);
    explicit_bzero(text, len);
    free(text);
    str_format(ret->source, sizeof ret->source, "profile %.60s of %.180s", profile, path);
    return fits ? 0 : too_long(path, err);
}

static int from_file(const char *path, const char *profile, struct s3_credentials *ret, struct err *err) {
    struct profile about = {0};
    int rc = look_into(path, profile, &about, ret, err);
    if (rc)
        return rc;
    if (!*ret->id || !*ret->secret)
        return err_set(err, ERR_UNAUTHENTICATED,
                       "%s: profile '%s' has no aws_access_key_id and aws_secret_access_key; add them, or name another profile",
                       path, profile);
    return 0;
}

/* "PATH#profile", the profile being optional. */
static int from_named_file(const char *text, struct s3_credentials *ret, struct err *err) {
    char path[PATH_BYTES];
    if (!str_copy(path, sizeof path, text))
        return err_set(err, ERR_RANGE, "the path of a credentials file is too long");
    char *hash = strrchr(path, '#');
    if (hash)
        *hash = '\0';
    return from_file(path, hash ? hash + 1 : "default", ret, err);
}

static int from_systemd(const char *name, struct s3_credentials *ret, struct err *err) {
    char path[PATH_BYTES];
    const char *dir = getenv("CREDENTIALS_DIRECTORY");
    if (!dir)
        return err_set(err, ERR_UNAUTHENTICATED,
                       "credentials systemd:%s: CREDENTIALS_DIRECTORY is not set; add LoadCredential=%s:FILE to the unit", name,
                       name);
    if (strchr(name, '/') || !str_format(path, sizeof path, "%s/%s", dir, name))
        return err_set(err, ERR_INVALID, "credentials systemd:%.100s: expected the plain name of a credential", name);
    return from_named_file(path, ret, err);
}

/* The variable's file, else the one in ~/.aws; false when there is no home. */
static bool shared_file(const char *variable, const char *name, char path[PATH_BYTES]) {
    const char *named = getenv(variable), *home = getenv("HOME");
    return named && *named ? str_copy(path, PATH_BYTES, named) : home && str_format(path, PATH_BYTES, "%s/.aws/%s", home, name);
}

/* Identities that the environment asks for and that are not used here. The role of the machine would be a broader one. */
static int check_environment(struct err *err) {
    static const char *const others[] = {"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                         "AWS_CONTAINER_CREDENTIALS_FULL_URI"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *value = getenv(others[i]);
        if (value && *value)
            return err_set(err, ERR_UNAUTHENTICATED,
                           "%s asks for an identity that brrd cannot use; pass keys (env, file:PATH#profile), or set credentials: "
                           "imds to use the role of the machine",
                           others[i]);
    }
    return 0;
}

/* NOT_FOUND when neither file has the profile and nobody asked for it. */
static int from_profile(const char *named, struct s3_credentials *ret, struct err *err) {
    char paths[2][PATH_BYTES];
    const char *profile = named && *named ? named : "default";
    const bool known[2] = {shared_file("AWS_SHARED_CREDENTIALS_FILE", "credentials", paths[0]),
                           shared_file("AWS_CONFIG_FILE", "config", paths[1])};
    struct profile about = {0};
    struct s3_credentials unused, *to = ret; /* keys of the first file count, and the second may say that they are not to be used */
    for (int i = 0; i < 2; i++) {
        int rc = known[i] && fsio_exists(paths[i]) ? look_into(paths[i], profile, &about, to, err) : 0;
        if (rc)
            return rc;
        to = *ret->id && *ret->secret ? &unused : ret;
    }
    if (!*about.other && *ret->id && *ret->secret)
        return 0;
    if (*about.other)
        return err_set(err, ERR_UNAUTHENTICATED,
                       "profile '%.100s' has %s, which brrd cannot use; give it aws_access_key_id and aws_secret_access_key, or "
                       "set credentials: imds to use the role of the machine",
                       profile, about.other);
    if (about.found || (named && *named))
        return err_set(err, ERR_UNAUTHENTICATED,
                       "profile '%.100s'%s has no aws_access_key_id and aws_secret_access_key in %.150s and %.150s", profile,
                       named && *named ? " of AWS_PROFILE" : "", known[0] ? paths[0] : "~/.aws/credentials",
                       known[1] ? paths[1] : "~/.aws/config");
    return err_set(err, ERR_NOT_FOUND, "no profile");
}

static int from_chain(struct s3_credentials *ret, struct err *err) {
    int rc = from_environment(ret, err);
    if (rc != ERR_NOT_FOUND || (rc = check_environment(err)))
        return rc;
    if ((rc = from_profile(getenv("AWS_PROFILE"), ret, err)) != ERR_NOT_FOUND)
        return rc;
    const char *disabled = getenv("AWS_EC2_METADATA_DISABLED");
    if (!disabled || strcasecmp(disabled, "true") != 0) {
        *ret = (struct s3_credentials){.remote = true, .source = "the metadata service of the machine"};
        return 0;
    }
    return err_set(err, ERR_UNAUTHENTICATED,
                   "no credentials: neither AWS_ACCESS_KEY_ID nor a profile in ~/.aws is there; set them, name credentials: "
                   "file:PATH#profile, or set anonymous: true for a public bucket");
}

int s3_credentials_load(const char *spec, struct s3_credentials *ret, struct err *err) {
    *ret = (struct s3_credentials){0};
    if (!spec)
        return from_chain(ret, err);
    if (!strcmp(spec, "env")) {
        int rc = from_environment(ret, err);
        return rc == ERR_NOT_FOUND
                   ? err_set(err, ERR_UNAUTHENTICATED, "credentials env: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
                   : rc;
    }
    if (str_starts(spec, "file:"))
        return from_named_file(spec + strlen("file:"), ret, err);
    if (str_starts(spec, "systemd:"))
        return from_systemd(spec + strlen("systemd:"), ret, err);
    if (!strcmp(spec, "imds")) {
        *ret = (struct s3_credentials){.remote = true, .source = "the metadata service of the machine"};
        return 0;
    }
    return err_set(err, ERR_INVALID, "credentials '%.100s': expected env, imds, file:PATH#profile or systemd:NAME", spec);
}
