// Writes go-template-functions.json: `go run go-template-functions.go > go-template-functions.json`.
// What text/template makes of its functions js and urlquery, net/http of a user and a password, and encoding/json of a text.
package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"runtime"
	"strings"
	"text/template"
	"unicode"
)

type row struct {
	Template string  `json:"template"`
	Output   *string `json:"output,omitempty"`
	GoError  string  `json:"go_error,omitempty"`
}

type pair struct {
	User     string `json:"user"`
	Password string `json:"password"`
	Output   string `json:"output"`
}

var data = map[string]interface{}{
	"a":       "A",
	"b":       "b c",
	"empty":   "",
	"quote":   "a\"b\\c'd`e",
	"markup":  "<b a=1>&amp;</b>",
	"query":   "a b+c/d?e=f&g#h%i~j-k_l.m!n'o(p)q*r:s;t,u@v$w[x]y",
	"braces":  "{{.a}}",
	"lines":   "x\ny\r\n\tz",
	"latin":   "caf\u00e9 \u00a0\u00ad \u00bf",
	"scripts": "\u043a\u043b\u044e\u0447 \u540d\u524d \u05d0\u05d1 \u0e01\u0e33 \u0915\u094d",
	"astral":  "\U0001f511 \U00010400 \U0001d538 \U000e0001 \U0010ffff",
	"special": "\u2028\u2029\u200b\u200d\u2060\ufeff\ufffd\ue000\u0300\u20ac\u2003\u3000",
	"pem":     "-----BEGIN KEY-----\nMIIB+/8=\n-----END KEY-----\n",
}

var templates = []string{
	"{{js}}", "{{urlquery}}", "{{js .a .b}}", "{{js .quote .markup .a}}", "{{urlquery .a .b}}",
	"{{urlquery .b .query}}", "{{ js .quote }}", "{{- js .quote -}}", "x {{- js .a -}} y", "{{js  .a\t.b\n}}",
	"{{js .a}}{{urlquery .b}}", "{{.quote | js}}", "{{.quote|js}}", "{{.query |urlquery}}", "{{.query| urlquery}}",
	"{{.quote | js | urlquery}}", "{{js .quote | urlquery}}", "{{.b | urlquery .a}}", "{{.b | js .quote .a}}",
	"{{.lines | urlquery | js}}", "{{js .quote | js | js}}", "{{.b | urlquery | urlquery -}} x",
	"{{js.a}}", "{{js .a.b}}", "{{js(.a)}}", "{{js .a,.b}}", "{{js .a}", "{{js .a |}}", "{{| js}}", "{{.a | }}",
	"{{.a | .b}}", "{{.a .b}}", "{{js | .a}}", "{{js .a-}}", "{{js-}}", "{{JS .a}}", "{{Js .a}}", "{{jsx .a}}",
	"{{urlQuery .a}}", "{{js /* c */ .a}}", "{{.a||js}}", "{{.a | 3}}", "{{js.a | js}}", "{{js\u00a0.a}}", "{{js ..a}}", "{{js . a}}",
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func render(text string) row {
	parsed, err := template.New("body").Parse(text)
	if err != nil {
		return row{Template: text, GoError: err.Error()}
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, data); err != nil {
		return row{Template: text, GoError: err.Error()}
	}
	output := out.String()
	return row{Template: text, Output: &output}
}

func main() {
	var ascii strings.Builder
	for c := rune(0); c <= 0x7f; c++ {
		ascii.WriteRune(c)
	}
	data["ascii"] = ascii.String()
	// Every 97th assigned code point: others become printable as Unicode grows.
	var sweep strings.Builder
	for c := rune(0x80); c < 0x30000; c += 97 {
		if unicode.In(c, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.Cc, unicode.Cf, unicode.Co) {
			sweep.WriteRune(c)
		}
	}
	data["sweep"] = sweep.String()
	rows := []row{}
	for _, text := range templates {
		rows = append(rows, render(text))
	}
	names := []string{"a", "b", "empty", "quote", "markup", "query", "braces", "lines", "latin", "scripts", "astral", "special", "pem", "ascii", "sweep"}
	texts := map[string]string{}
	for _, name := range names {
		rows = append(rows, render("{{js ."+name+"}}"), render("{{urlquery ."+name+"}}"))
		encoded, err := json.Marshal(data[name])
		must(err)
		texts[name] = string(encoded)
	}
	pairs := []pair{}
	for _, each := range [][2]string{
		{"Aladdin", "open sesame"}, {"user", ""}, {"", "password"}, {"", ""}, {"user", "a:b:c"}, {"test", "123\u00a3"},
		{"caf\u00e9", "\U0001f511"}, {"sk_live_0", "\"\\<>&"},
	} {
		request, err := http.NewRequest("GET", "http://localhost/", nil)
		must(err)
		request.SetBasicAuth(each[0], each[1])
		pairs = append(pairs, pair{each[0], each[1], strings.TrimPrefix(request.Header.Get("Authorization"), "Basic ")})
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	must(encoder.Encode(map[string]interface{}{
		"note":      "Rendered by text/template of " + runtime.Version() + ", default options, data as map[string]interface{}; json: what encoding/json makes of each value; basicAuth: what net/http's SetBasicAuth puts behind the word Basic. Made by go-template-functions.go.",
		"data":      data,
		"rows":      rows,
		"json":      texts,
		"basicAuth": pairs,
	}))
}
