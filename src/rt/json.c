/* SPDX-License-Identifier: MIT */
#include "rt/json.h"
#include "base/bits.h"
#include "base/check.h"
#include "rt/message.h"
#include <string.h>

#define ITEM_SIZE 128 /* a name of up to 80 characters and a number */

void mi__json_begin(struct mi__json *json, char *buf, size_t size) {
  *json = (struct mi__json){.buf = buf, .size = size};
  if (size > 0) buf[0] = 0;
}

/* n_closing: brackets that the text opens. False: it does not fit. */
static bool put(struct mi__json *json, const char *text, unsigned n_closing) {
  size_t n = strlen(text);
  json->needed += n;
  if (json->full || json->length + n + json->depth + n_closing + 1 > json->size) {
    json->full = true;
    return false;
  }
  memcpy(json->buf + json->length, text, n + 1);
  json->length += n;
  return true;
}

/* An item is written whole or not at all. Members of the whole and objects stand on lines of their
 * own. */
static bool put_item(struct mi__json *json, const char *name, const char *value,
                     unsigned n_closing) {
  char item[ITEM_SIZE];
  bool line = json->depth + json->n_left_out == 1 || value[0] == '{';
  size_t n = mi__format(item, sizeof item, "%s%s%s%s%s%s", json->comma ? "," : "",
                        line && json->needed > 0 ? "\n" : "", name != NULL ? "\"" : "",
                        name != NULL ? name : "", name != NULL ? "\":" : "", value);
  mi__assert(n < sizeof item);
  (void)n;
  json->comma = true;
  return put(json, item, n_closing);
}

void mi__json_open(struct mi__json *json, const char *name, char bracket) {
  char text[2] = {bracket, 0};
  mi__assert(json->depth < MI_JSON_DEPTH);
  if (put_item(json, name, text, 1)) json->closing[json->depth++] = bracket == '{' ? '}' : ']';
  else json->n_left_out++;
  json->comma = false;
}

void mi__json_close(struct mi__json *json) {
  json->comma = true;
  json->needed++;
  if (json->n_left_out > 0) {
    json->n_left_out--;
    return;
  }
  json->buf[json->length++] = json->closing[--json->depth];
  json->buf[json->length] = 0;
}

void mi__json_number(struct mi__json *json, const char *name, int64_t value) {
  char text[24];
  mi__format(text, sizeof text, "%lld", (long long)value);
  put_item(json, name, text, 0);
}

void mi__json_hex(struct mi__json *json, const char *name, uint64_t value) {
  char text[24];
  mi__format(text, sizeof text, "\"0x%llx\"", (unsigned long long)value);
  put_item(json, name, text, 0);
}

void mi__json_bool(struct mi__json *json, const char *name, bool value) {
  put_item(json, name, value ? "true" : "false", 0);
}
