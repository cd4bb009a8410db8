package report

import (
	"bytes"
	"context"
	"encoding/json"
	"html"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// browser is Chromium, without a window; a machine that has none skips its tests, and
// one of CI fails them.
func browser(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no Chromium; apt-get install chromium")
	}
	t.Skip("no Chromium here")
	return ""
}

// measured is what the probe script finds on a page once it is laid out.
type measured struct {
	Title, Heading, Verdict string
	Width, Wide             int
	// Over are elements that stick out to the right of the window, but for what
	// scrolls by itself.
	Over []string
	// Pale are texts whose contrast is below 4.5 to 1 (WCAG 2.1, 1.4.3 AA), or 3 to 1
	// where they are large.
	Pale []string
	// Alerts counts what hostile text ran.
	Alerts int
}

// probe measures the page and leaves the result in it, for --dump-dom.
const probe = `<script>
window.addEventListener("load", function () {
  var out = {Title: document.title, Heading: "", Verdict: "", Width: innerWidth, Wide: document.documentElement.scrollWidth, Over: [], Pale: [], Alerts: window.ran || 0};
  var h = document.querySelector("h1"), v = document.querySelector(".verdict");
  if (h) out.Heading = h.textContent.trim();
  if (v) out.Verdict = v.textContent.trim();
  function rgb(s) { var m = s.match(/[\d.]+/g) || [0, 0, 0, 0]; return m.map(Number).concat(m.length < 4 ? [1] : []); }
  function lum(c) { return [0, 1, 2].reduce(function (sum, i) { var x = c[i] / 255; x = x <= .03928 ? x / 12.92 : Math.pow((x + .055) / 1.055, 2.4); return sum + x * [.2126, .7152, .0722][i]; }, 0); }
  function behind(e) { for (; e; e = e.parentElement) { var c = rgb(getComputedStyle(e).backgroundColor); if (c[3] > .99) return c; } return [255, 255, 255, 1]; }
  document.querySelectorAll("body *").forEach(function (e) {
    var r = e.getBoundingClientRect(), s = getComputedStyle(e);
    if (!r.width || !r.height || s.visibility == "hidden" || e.closest(".quiet,.skip,svg,script")) return;
    if (r.right > innerWidth + 1 && !e.closest(".scroll")) out.Over.push(e.tagName + "." + e.className + " " + Math.round(r.right));
    if (!Array.from(e.childNodes).some(function (n) { return n.nodeType == 3 && n.textContent.trim(); })) return;
    var a = lum(rgb(s.color)), b = lum(behind(e)), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    var px = parseFloat(s.fontSize), large = px >= 24 || px >= 18.66 && s.fontWeight >= 700;
    if (ratio < (large ? 3 : 4.5)) out.Pale.push(e.tagName + "." + e.className + " " + ratio.toFixed(2) + " " + e.textContent.trim().slice(0, 30));
  });
  var pre = document.createElement("pre"); pre.id = "measured"; pre.textContent = JSON.stringify(out); parent.document.body.appendChild(pre);
});
</script>`

var found = regexp.MustCompile(`(?s)<pre id="measured">(.*?)</pre>`)

// look opens a page in the browser, measures it, and takes a screenshot, which has to be
// a picture of that size.
func look(t *testing.T, chromium, page string, width int, more ...string) measured {
	t.Helper()
	dir := t.TempDir()
	file, shot := filepath.Join(dir, "page.html"), filepath.Join(dir, "page.png")
	// In the head, so that it counts what hostile text in the body runs.
	page = strings.Replace(page, "script-src 'unsafe-inline'; ", "", 1)
	page = strings.Replace(page, "style-src 'unsafe-inline'", "style-src 'unsafe-inline'; script-src 'unsafe-inline'", 1)
	page = strings.Replace(page, "</title>", "</title><script>window.alert=function(){window.ran=(window.ran||0)+1}</script>"+probe, 1)
	// In a frame: no window of Chromium is narrower than 500.
	frame := `<body style="margin:0"><iframe style="border:0;width:` + strconv.Itoa(width) + `px;height:1400px" srcdoc="` + html.EscapeString(page) + `"></iframe>`
	if err := os.WriteFile(file, []byte(frame), 0o600); err != nil {
		t.Fatal(err)
	}
	window := max(width, 500)
	size := "--window-size=" + strconv.Itoa(window) + ",1400"
	args := append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir=" + filepath.Join(dir, "profile"), size}, more...)
	dom := chrome(t, chromium, append(args, "--dump-dom", "file://"+file)...)
	m := found.FindSubmatch(dom)
	if m == nil {
		t.Fatalf("the page measured nothing; its script broke:\n%.2000s", dom)
	}
	var out measured
	if err := json.Unmarshal([]byte(html.UnescapeString(string(m[1]))), &out); err != nil {
		t.Fatal(err)
	}
	chrome(t, chromium, append(args, "--screenshot="+shot, "file://"+file)...)
	f, err := os.Open(shot)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	if picture, err := png.DecodeConfig(f); err != nil || picture.Width != window || picture.Height != 1400 {
		t.Errorf("screenshot %+v, %v; want %d by 1400", picture, err, window)
	}
	if keep := os.Getenv("HOLDFAST_SCREENSHOTS"); keep != "" {
		data, err := os.ReadFile(shot)
		if err == nil {
			err = os.WriteFile(filepath.Join(keep, strings.ReplaceAll(t.Name(), "/", "-")+"-"+strconv.Itoa(width)+strings.Join(more, "")+".png"), data, 0o600)
		}
		if err != nil {
			t.Error(err)
		}
	}
	return out
}

func chrome(t *testing.T, chromium string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var out, diagnostics bytes.Buffer
	cmd := exec.CommandContext(ctx, chromium, args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &diagnostics, time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%.2000s", chromium, err, diagnostics.String())
	}
	return out.Bytes()
}

// screen is how wide one is in pixels, and what else the browser is told.
type screen struct {
	width int
	more  []string
}

// A real browser reads the verdict off each kind of report, on a screen, a telephone and
// in the dark; nothing sticks out, nothing is too pale to read, and no text of a drill
// becomes a script.
func TestPagesInABrowser(t *testing.T) {
	chromium := browser(t)
	failing := demo()
	failing.Verdict, failing.Reasons = Fail, []string{"main: b/etcd/put/new: 30.3–30.5 s, allowed ≤ 6 s"}
	evil := hostile()
	longer := demo()
	for i := range longer.With.Paths {
		longer.With.Paths[i].Name = strings.Repeat("a-long-name/", 12) + longer.With.Paths[i].Name
	}
	var both bytes.Buffer
	if err := Compare(demo(), longer).HTML(&both); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ page, verdict, heading string }{
		"inconclusive": {render(t, demo(), FormatHTML), "Inconclusive", "The link a–b is cut"},
		"failing":      {render(t, failing, FormatHTML), "Fail", "The link a–b is cut"},
		"hostile":      {render(t, evil, FormatHTML), "Fail", "<script>"},
		"compared":     {both.String(), "Inconclusive", "Of "},
	} {
		t.Run(name, func(t *testing.T) {
			screens := []screen{{400, nil}, {1100, nil}, {1100, []string{"--blink-settings=preferredColorScheme=0"}}}
			if name != "failing" && os.Getenv("HOLDFAST_E2E_ADDRESS") == "" {
				screens = screens[:1] // each takes seconds
			}
			for _, screen := range screens {
				m := look(t, chromium, tc.page, screen.width, screen.more...)
				if m.Verdict != tc.verdict || !strings.Contains(m.Heading, tc.heading) || m.Alerts != 0 {
					t.Errorf("%d %v: verdict %q, heading %q, %d scripts of others", screen.width, screen.more, m.Verdict, m.Heading, m.Alerts)
				}
				if m.Width != screen.width || m.Wide > m.Width || len(m.Over) > 0 {
					t.Errorf("%d %v: the page is %d wide in %d; over the edge: %q", screen.width, screen.more, m.Wide, m.Width, m.Over)
				}
				if len(m.Pale) > 0 {
					t.Errorf("%d %v: too pale: %q", screen.width, screen.more, m.Pale)
				}
			}
		})
	}
}
