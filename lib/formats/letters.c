#include "formats/letters.h"

#include "base/base.h"

/* Marks, and the letters that they stand behind, each with the one character that both are together: Latin, Greek, Cyrillic, Arabic
 * and kana. Syllables of Hangul follow from their number. */
static const struct row {
    char mark[4];
    const char *pairs;
} rows[] = {
    {"\xCC\x80", "AÀEÈIÌOÒUÙaàeèiìoòuùÜǛüǜNǸnǹЕЀИЍеѐиѝĒḔēḕŌṐōṑWẀwẁÂẦâầĂẰăằÊỀêềÔỒôồƠỜơờƯỪưừYỲyỳ"},
    {"\xCC\x81", "AÁEÉIÍOÓUÚYÝaáeéiíoóuúyýCĆcćLĹlĺNŃnńRŔrŕSŚsśZŹzźÜǗüǘGǴgǵÅǺåǻÆǼæǽØǾøǿΑΆΕΈΗΉΙΊΟΌΥΎΩΏϊΐαάεέηή"
                 "ιίϋΰοόυύωώϒϓГЃКЌгѓкќÇḈçḉĒḖēḗÏḮïḯKḰkḱMḾmḿÕṌõṍŌṒōṓPṔpṕŨṸũṹWẂwẃÂẤâấĂẮăắÊẾêếÔỐôốƠỚơớƯỨưứ"},
    {"\xCC\x82", "AÂEÊIÎOÔUÛaâeêiîoôuûCĈcĉGĜgĝHĤhĥJĴjĵSŜsŝWŴwŵYŶyŷZẐzẑẠẬạậẸỆẹệỌỘọộ"},
    {"\xCC\x83", "AÃNÑOÕaãnñoõIĨiĩUŨuũVṼvṽÂẪâẫĂẴăẵEẼeẽÊỄêễÔỖôỗƠỠơỡƯỮưữYỸyỹ"},
    {"\xCC\x88", "AÄEËIÏOÖUÜaäeëiïoöuüyÿYŸΙΪΥΫιϊυϋϒϔЕЁІЇеёіїАӒаӓӘӚәӛЖӜжӝЗӞзӟИӤиӥОӦоӧӨӪөӫЭӬэӭУӰуӱЧӴчӵЫӸыӹHḦhḧ"
                 "ÕṎõṏŪṺūṻWẄwẅXẌxẍtẗ"},
    {"\xCC\x8A", "AÅaåUŮuůwẘyẙ"},
    {"\xCC\xA7", "CÇcçGĢgģKĶkķLĻlļNŅnņRŖrŗSŞsşTŢtţEȨeȩDḐdḑHḨhḩ"},
    {"\xCC\x84", "AĀaāEĒeēIĪiīOŌoōUŪuūÜǕüǖÄǞäǟȦǠȧǡÆǢæǣǪǬǫǭÖȪöȫÕȬõȭȮȰȯȱYȲyȳИӢиӣУӮуӯGḠgḡḶḸḷḹṚṜṛṝ"},
    {"\xCC\x86", "AĂaăEĔeĕGĞgğIĬiĭOŎoŏUŬuŭУЎИЙийуўЖӁжӂАӐаӑЕӖеӗȨḜȩḝẠẶạặ"},
    {"\xCC\xA8", "AĄaąEĘeęIĮiįUŲuųOǪoǫ"},
    {"\xCC\x87", "CĊcċEĖeėGĠgġIİZŻzżAȦaȧOȮoȯBḂbḃDḊdḋFḞfḟHḢhḣMṀmṁNṄnṅPṖpṗRṘrṙSṠsṡŚṤśṥŠṦšṧṢṨṣṩTṪtṫWẆwẇXẊxẋYẎyẏ"
                 "ſẛ"},
    {"\xCC\x8C", "CČcčDĎdďEĚeěLĽlľNŇnňRŘrřSŠsšTŤtťZŽzžAǍaǎIǏiǐOǑoǒUǓuǔÜǙüǚGǦgǧKǨkǩƷǮʒǯjǰHȞhȟ"},
    {"\xCC\x8B", "OŐoőUŰuűУӲуӳ"},
    {"\xCC\x9B", "OƠoơUƯuư"},
    {"\xCC\x8F", "AȀaȁEȄeȅIȈiȉOȌoȍRȐrȑUȔuȕѴѶѵѷ"},
    {"\xCC\x91", "AȂaȃEȆeȇIȊiȋOȎoȏRȒrȓUȖuȗ"},
    {"\xCC\xA6", "SȘsșTȚtț"},
    {"\xD9\x93", "اآ"},
    {"\xD9\x94", "اأوؤيئەۀہۂےۓ"},
    {"\xD9\x95", "اإ"},
    {"\xCC\xA5", "AḀaḁ"},
    {"\xCC\xA3", "BḄbḅDḌdḍHḤhḥKḲkḳLḶlḷMṂmṃNṆnṇRṚrṛSṢsṣTṬtṭVṾvṿWẈwẉZẒzẓAẠaạEẸeẹIỊiịOỌoọƠỢơợUỤuụƯỰưựYỴyỵ"},
    {"\xCC\xB1", "BḆbḇDḎdḏKḴkḵLḺlḻNṈnṉRṞrṟTṮtṯZẔzẕhẖ"},
    {"\xCC\xAD", "DḒdḓEḘeḙLḼlḽNṊnṋTṰtṱUṶuṷ"},
    {"\xCC\xB0", "EḚeḛIḬiḭUṴuṵ"},
    {"\xCC\xAE", "HḪhḫ"},
    {"\xCC\xA4", "UṲuṳ"},
    {"\xCC\x89", "AẢaảÂẨâẩĂẲăẳEẺeẻÊỂêểIỈiỉOỎoỏÔỔôổƠỞơởUỦuủƯỬưửYỶyỷ"},
    {"\xE3\x82\x99", "かがきぎくぐけげこごさざしじすずせぜそぞただちぢつづてでとどはばひびふぶへべほぼうゔゝゞカガキギクグケゲコゴ"
                     "サザシジスズセゼソゾタダチヂツヅテデトドハバヒビフブヘベホボウヴワヷヰヸ"
                     "ヱヹヲヺヽヾ"},
    {"\xE3\x82\x9A", "はぱひぴふぷへぺほぽハパヒピフプヘペホポ"},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Hangul: syllables of a leading consonant, a vowel and at most one consonant behind it. */
enum {
    SYLLABLE = 0xAC00,
    SYLLABLES = 11172,
    LEADING = 0x1100,
    VOWEL = 0x1161,
    TRAILING = 0x11A7,
    LEADINGS = 19,
    VOWELS = 21,
    TRAILINGS = 28
};

static size_t length_of(const char *at) {
    const int n = str_utf8_step(at);
    return n > 0 ? (size_t)n : 1;
}

/* The number of a character of three bytes; 0 for others. */
static int letter_number(const char *at) {
    return str_utf8_step(at) == 3 ? (at[0] & 0x0F) << 12 | (at[1] & 0x3F) << 6 | (at[2] & 0x3F) : 0;
}

static void letter_put(struct str *out, int number) {
    const char bytes[3] = {(char)(0xE0 | number >> 12), (char)(0x80 | (number >> 6 & 0x3F)), (char)(0x80 | (number & 0x3F))};
    str_append(out, bytes, sizeof bytes);
}

/* The pair of a row with these bytes as its letter, or as the character that both make; NULL: none. */
static const char *pair_of(const struct row *row, const char *at, size_t n, bool joined) {
    for (const char *pair = row->pairs, *next; *pair; pair = next) {
        const char *whole = pair + length_of(pair), *side = joined ? whole : pair;
        next = whole + length_of(whole);
        if (length_of(side) == n && !memcmp(side, at, n))
            return pair;
    }
    return NULL;
}

static void put_apart(struct str *out, const char *at, size_t n) {
    const int syllable = letter_number(at) - SYLLABLE;
    if (syllable >= 0 && syllable < SYLLABLES) {
        letter_put(out, LEADING + syllable / TRAILINGS / VOWELS);
        letter_put(out, VOWEL + syllable / TRAILINGS % VOWELS);
        if (syllable % TRAILINGS)
            letter_put(out, TRAILING + syllable % TRAILINGS);
        return;
    }
    for (int i = 0; n > 1 && i < ROWS; i++) {
        const char *pair = pair_of(&rows[i], at, n, true);
        if (!pair)
            continue;
        put_apart(out, pair, length_of(pair)); /* a letter may have two marks */
        str_puts(out, rows[i].mark);
        return;
    }
    str_append(out, at, n);
}

/* The text with the character at `at` joined to the one before it, which begins at `before`; false: they stay two. */
static bool letter_join(struct str *out, size_t before, const char *at, size_t n) {
    const char *last = str_cstr(out) + before;
    const size_t len = out->len - before;
    const int first = letter_number(last), second = letter_number(at);
    int both = 0;
    if (first >= LEADING && first < LEADING + LEADINGS && second >= VOWEL && second < VOWEL + VOWELS)
        both = SYLLABLE + ((first - LEADING) * VOWELS + second - VOWEL) * TRAILINGS;
    else if (first >= SYLLABLE && first < SYLLABLE + SYLLABLES && (first - SYLLABLE) % TRAILINGS == 0 && second > TRAILING &&
             second < TRAILING + TRAILINGS)
        both = first + second - TRAILING;
    if (both) {
        out->len = before;
        letter_put(out, both);
    }
    for (int i = 0; n > 1 && !both && i < ROWS; i++) {
        const char *pair = strlen(rows[i].mark) == n && !memcmp(rows[i].mark, at, n) ? pair_of(&rows[i], last, len, false) : NULL;
        if (!pair)
            continue;
        out->len = before;
        pair += length_of(pair);
        str_append(out, pair, length_of(pair));
        return true;
    }
    return both;
}

static bool is_ascii(const char *text) {
    while (*text && (unsigned char)*text < 0x80)
        text++;
    return !*text;
}

bool letters_apart(const char *text, char *ret, size_t size) {
    if (is_ascii(text))
        return ret == text || str_copy(ret, size, text);
    OWNED(str_done) struct str out = str_of(size);
    for (size_t n; *text; text += n)
        put_apart(&out, text, n = length_of(text));
    return str_copy(ret, size, str_cstr(&out)) && str_ok(&out);
}

bool letters_joined(const char *text, char *ret, size_t size) {
    if (is_ascii(text))
        return ret == text || str_copy(ret, size, text);
    OWNED(str_done) struct str out = str_of(size);
    for (size_t n, before = 0; *text; text += n) {
        n = length_of(text);
        if (out.len && letter_join(&out, before, text, n))
            continue;
        before = out.len;
        str_append(&out, text, n);
    }
    return str_copy(ret, size, str_cstr(&out)) && str_ok(&out);
}

bool letters_find(char *path, size_t size) {
    char name[PATH_MAX], other[PATH_MAX];
    const char *last = fsio_basename(path);
    if (is_ascii(last) || fsio_exists(path))
        return fsio_exists(path);
    for (int apart = 0; apart < 2; apart++)
        if ((apart ? letters_apart : letters_joined)(last, name, sizeof name) &&
            str_format(other, sizeof other, "%.*s%s", (int)(last - path), path, name) && fsio_exists(other))
            return str_copy(path, size, other);
    return false;
}
