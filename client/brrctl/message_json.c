#include "client/brrctl/message_json.h"

#include "base/base.h"

/* A word of the list of fields. */
struct word {
    char member[48], field[48];
    bool nullable, positive;
    char otherwise[8]; /* of a text that is JSON; "": it is none */
    char bracket;      /* '(', '[', '{' or 0 */
    const char *inner; /* what stands in the brackets, to their end */
};

static _Noreturn void mistake(const ProtobufCMessage *message, const char *field) {
    fprintf(stderr, "brrctl: %s has no field '%s' that can be printed as JSON\n", message->descriptor->name, field);
    abort();
}

static size_t copy_name(const char *at, char name[48]) {
    size_t len = strcspn(at, " =?~!([{}])");
    str_format(name, 48, "%.*s", (int)len, at);
    return len;
}

/* Behind the bracket that closes the one at `at`. */
static const char *closing(const char *at) {
    int depth = 0;
    for (; *at; at++) {
        depth += (strchr("([{", *at) != NULL) - (strchr(")]}", *at) != NULL);
        if (!depth)
            return at + 1;
    }
    return at;
}

/* Reads the word at *at and moves behind it; false at the end of the list or of the brackets that it stands in. */
static bool next_word(const char **at, struct word *ret) {
    const char *p = *at + strspn(*at, " ");
    *ret = (struct word){.nullable = false};
    if (!*p || strchr(")]}", *p))
        return false;
    p += copy_name(p, ret->member);
    p += *p == '=' ? 1 + copy_name(p + 1, ret->field) : 0;
    if (!*ret->field)
        memcpy(ret->field, ret->member, sizeof ret->field);
    ret->nullable = *p == '?';
    ret->positive = *p == '~';
    p += ret->nullable || ret->positive;
    if (*p == '!') {
        const size_t len = strcspn(p + 1, " ");
        str_format(ret->otherwise, sizeof ret->otherwise, "%.*s", (int)len, p + 1);
        p += 1 + len;
    } else if (*p == '(' || *p == '[' || *p == '{') {
        ret->bracket = *p;
        ret->inner = p + 1;
        p = closing(p);
    }
    *at = p;
    return true;
}

static const ProtobufCFieldDescriptor *find(const ProtobufCMessage *message, const char *name) {
    const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
    if (!f)
        mistake(message, name);
    return f;
}

static const void *value_of(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *f) {
    return (const char *)message + f->offset;
}

/* "succeeded" for JOB_STATE_SUCCEEDED of JobState: the words behind those of the type. */
static void put_enum(struct json_writer *w, const ProtobufCFieldDescriptor *f, const char *key, int value) {
    const ProtobufCEnumDescriptor *type = f->descriptor;
    const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(type, value);
    const char *name = found ? found->name : "";
    char text[48];
    for (const char *at = type->short_name; *at && *name; at++)
        name += isupper((unsigned char)*at) ? strcspn(name, "_") + 1 : 0;
    str_copy(text, sizeof text, name);
    for (char *at = text; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    json_put_str(w, key, text);
}

static void put_words(struct json_writer *w, const struct word *word, const char *key, const char *text) {
    OWNED_POINTER(json_free) struct json *json = NULL;
    if (*word->otherwise)
        json_put_raw(w, key, *text && !json_parse(text, strlen(text), key, &json, NULL) ? text : word->otherwise);
    else
        json_put_str(w, key, word->nullable && !*text ? NULL : text);
}

/* The value at `at`, of the field's type, under `key` (NULL: within an array). */
static void put_value(struct json_writer *w, const ProtobufCMessage *message, const ProtobufCFieldDescriptor *f,
                      const struct word *word, const char *key, const void *at) {
    if (f->type == PROTOBUF_C_TYPE_STRING) {
        put_words(w, word, key, *(char *const *)at);
    } else if (f->type == PROTOBUF_C_TYPE_BOOL) {
        json_put_bool(w, key, *(const protobuf_c_boolean *)at);
    } else if (f->type == PROTOBUF_C_TYPE_INT32) {
        json_put_i64(w, key, *(const int32_t *)at);
    } else if (f->type == PROTOBUF_C_TYPE_INT64) {
        json_put_i64(w, key, *(const int64_t *)at);
    } else if (f->type == PROTOBUF_C_TYPE_FLOAT) {
        json_put_f64(w, key, (double)*(const float *)at);
    } else if (f->type == PROTOBUF_C_TYPE_DOUBLE) {
        const double value = *(const double *)at;
        json_put_f64(w, key, word->positive && !(value > 0) ? NAN : value);
    } else if (f->type == PROTOBUF_C_TYPE_ENUM) {
        put_enum(w, f, key, *(const int *)at);
    } else if (f->type == PROTOBUF_C_TYPE_MESSAGE && word->bracket == '[') {
        if (*(ProtobufCMessage *const *)at)
            message_json(w, *(ProtobufCMessage *const *)at, word->inner);
    } else if (f->type == PROTOBUF_C_TYPE_MESSAGE && word->bracket == '(') {
        const ProtobufCMessage *inner = *(ProtobufCMessage *const *)at;
        if (!inner)
            return;
        json_begin_object(w, key);
        message_json(w, inner, word->inner);
        json_end(w, '}');
    } else {
        mistake(message, f->name);
    }
}

/* A repeated message as one object. */
static void put_members(struct json_writer *w, const struct word *word, ProtobufCMessage *const *items, size_t n) {
    const char *at = word->inner;
    struct word key, value;
    next_word(&at, &key);
    next_word(&at, &value);
    json_begin_object(w, word->member);
    for (size_t i = 0; i < n; i++) {
        const char *const *member = value_of(items[i], find(items[i], key.field));
        const ProtobufCFieldDescriptor *f = find(items[i], value.field);
        put_value(w, items[i], f, &value, *member, value_of(items[i], f));
    }
    json_end(w, '}');
}

/* Repeated texts, doubles or messages. */
static void put_repeated(struct json_writer *w, const ProtobufCMessage *message, const ProtobufCFieldDescriptor *f,
                         const struct word *word) {
    const char *items = *(const char *const *)value_of(message, f);
    size_t size = f->type == PROTOBUF_C_TYPE_DOUBLE ? sizeof(double) : sizeof(void *);
    size_t n = *(const size_t *)((const char *)message + f->quantifier_offset);
    if (f->type != PROTOBUF_C_TYPE_STRING && f->type != PROTOBUF_C_TYPE_MESSAGE && f->type != PROTOBUF_C_TYPE_DOUBLE)
        mistake(message, f->name);
    if (word->bracket == '{') {
        put_members(w, word, (ProtobufCMessage *const *)(const void *)items, n);
        return;
    }
    json_begin_array(w, word->member);
    for (size_t i = 0; i < n; i++)
        put_value(w, message, f, word, NULL, items + i * size);
    json_end(w, ']');
}

void message_json(struct json_writer *w, const ProtobufCMessage *message, const char *fields) {
    struct word word;
    while (next_word(&fields, &word)) {
        const ProtobufCFieldDescriptor *f = find(message, word.field);
        if (f->label == PROTOBUF_C_LABEL_REPEATED)
            put_repeated(w, message, f, &word);
        else
            put_value(w, message, f, &word, word.member, value_of(message, f));
    }
}
