package report

import (
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/report/svg"
)

// class is how one outcome of samples is drawn. The pattern tells classes apart
// without colour; the shade only tells answered from failed.
type class struct {
	Name  string // of Stretch.Class
	Words string // for the legend
	// tile draws the pattern into a square of tileSize; nil fills solidly.
	tile func(c *svg.Canvas)
}

const tileSize = 6

// classes lists the outcomes in the order of the legend. The last one also stands
// for classes this program does not know.
var classes = []class{
	{"ok", "answered", nil},
	{"slow", "slow (over 1 s)", tileSlow},
	{"timeout", "timeout", nil},
	{"server", "server error", tileVertical},
	{"refused", "refused", tileCross},
	{"reset", "reset", tileDots},
	{"unreachable", "unreachable", tileHorizontal},
	{"tls", "TLS error", tileGrid},
	{"dns", "DNS error", tileRings},
	{"http", "HTTP error", tileChecks},
	{"other", "other error", tilePlain},
}

func classOf(name string) class {
	if name == "" { // probe.ClassOK
		name = "ok"
	}
	for _, c := range classes {
		if c.Name == name {
			return c
		}
	}
	return classes[len(classes)-1]
}

// down says whether samples of the class got no good answer.
func (c class) down() bool { return c.Name != "ok" && c.Name != "slow" }

func tilePlain(*svg.Canvas) {}

func tileVertical(c *svg.Canvas) {
	c.Rect(1, 0, 1.4, 6, "hf-dark")
	c.Rect(4, 0, 1.4, 6, "hf-dark")
}

func tileHorizontal(c *svg.Canvas) {
	c.Rect(0, 1, 6, 1.3, "hf-dark")
	c.Rect(0, 4, 6, 1.3, "hf-dark")
}

func tileCross(c *svg.Canvas) { c.Path("M0 0L6 6M6 0L0 6", "hf-darkline") }

func tileDots(c *svg.Canvas) {
	c.Circle(1.5, 1.5, 1.1, "hf-dark")
	c.Circle(4.5, 4.5, 1.1, "hf-dark")
}

func tileSlow(c *svg.Canvas) {
	c.Circle(1.5, 1.5, 1, "hf-slow")
	c.Circle(4.5, 4.5, 1, "hf-slow")
}

func tileGrid(c *svg.Canvas) { c.Path("M3 0V6M0 3H6", "hf-darkline") }

func tileRings(c *svg.Canvas) { c.Circle(3, 3, 1.8, "hf-darkline") }

func tileChecks(c *svg.Canvas) {
	c.Rect(0, 0, 3, 3, "hf-dark")
	c.Rect(3, 3, 3, 3, "hf-dark")
}

// patterns defines the fills of the used classes and of the overshoot. The ids
// carry a prefix, since several drawings may share one page.
func patterns(c *svg.Canvas, prefix string, used map[string]bool) {
	c.Open("defs")
	for _, k := range classes {
		if k.tile == nil || !used[k.Name] {
			continue
		}
		c.Open("pattern", svg.A("id", prefix+k.Name), svg.A("patternUnits", "userSpaceOnUse"),
			svg.N("width", tileSize), svg.N("height", tileSize))
		if k.down() {
			c.Rect(0, 0, tileSize, tileSize, "hf-tint")
		} else {
			c.Rect(0, 0, tileSize, tileSize, "hf-slowtint")
		}
		k.tile(c)
		c.Close()
	}
	c.Open("pattern", svg.A("id", prefix+"over"), svg.A("patternUnits", "userSpaceOnUse"),
		svg.N("width", 5), svg.N("height", 5), svg.A("patternTransform", "rotate(45)"))
	c.Rect(0, 0, 1.5, 5, "hf-over")
	c.Close()
	c.Close()
}

// fill is the attribute that paints a class.
func (c class) fill(prefix string) []svg.Attr {
	if c.tile == nil {
		return []svg.Attr{svg.Class("hf-" + c.Name)}
	}
	edge := "hf-edge"
	if !c.down() {
		edge = "hf-slowedge"
	}
	return []svg.Attr{svg.Class(edge), svg.A("fill", "url(#"+prefix+c.Name+")")}
}

// shades are the colours of a drawing, by role. Light is also what paper gets:
// its greys are at least 12 % of lightness apart where areas touch.
type shades struct {
	card, edge, ink, mute, rule, ok, fail, tint, slow, slowTint, mark, fault, faultHead, window, windowEdge string
}

var (
	light = shades{
		card: "#ffffff", edge: "#d4dae2", ink: "#18212d", mute: "#566273", rule: "#e3e7ed",
		ok: "#3f8f7b", fail: "#a8231c", tint: "#f3d6d2", slow: "#8a5a00", slowTint: "#f6dfa8",
		mark: "#1f56a3", fault: "#f4f1ec", faultHead: "#ddd5c8", window: "#d3e3f5", windowEdge: "#7d9fc6",
	}
	dark = shades{
		card: "#171c24", edge: "#333c49", ink: "#e8edf3", mute: "#a3afbf", rule: "#29313c",
		ok: "#57b39b", fail: "#f0766b", tint: "#4a2523", slow: "#f0c469", slowTint: "#4a3c1b",
		mark: "#7fb2f5", fault: "#20252c", faultHead: "#3a3d40", window: "#1f3654", windowEdge: "#5480b3",
	}
)

// sheetTemplate is the style sheet of a drawing; the names in braces are shades.
const sheetTemplate = `.hf text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"Liberation Sans",sans-serif;fill:{ink}}
.hf .hf-card{fill:{card};stroke:{edge}}
.hf .hf-strong{font-weight:650}
.hf .hf-mute{fill:{mute}}
.hf .hf-bad{fill:{fail}}
.hf .hf-plain{fill:{ink}}
.hf .hf-good{fill:{ok}}
.hf .hf-rule{stroke:{rule};stroke-width:1}
.hf .hf-zero{stroke:{ink};stroke-width:1.2}
.hf .hf-bracket{stroke:{edge};stroke-width:2}
.hf .hf-fault{fill:{fault}}
.hf .hf-faulthead{fill:{faultHead}}
.hf .hf-faultedge{stroke:{faultHead};stroke-width:1}
.hf .hf-window{fill:{window}}
.hf .hf-windowedge{stroke:{windowEdge};stroke-width:1.2}
.hf .hf-ok{fill:{ok}}
.hf .hf-timeout{fill:{fail}}
.hf .hf-edge{stroke:{fail};stroke-width:.8}
.hf .hf-slow{fill:{slow}}
.hf .hf-slowedge{stroke:{slow};stroke-width:.8}
.hf .hf-tint{fill:{tint}}
.hf .hf-slowtint{fill:{slowTint}}
.hf .hf-dark{fill:{fail}}
.hf .hf-darkline{fill:none;stroke:{fail};stroke-width:1.1}
.hf .hf-over{fill:{fail}}
.hf .hf-mark{fill:{mark};stroke:{mark};stroke-width:1.4}
.hf .hf-hollow{fill:{card};stroke:{mark};stroke-width:1.6}
.hf .hf-hollowbad{fill:{card};stroke:{fail};stroke-width:1.6}
.hf .hf-stem{stroke:{mark};stroke-width:1}
.hf .hf-stembad{stroke:{fail};stroke-width:1}
.hf .hf-through{stroke:{mark};stroke-width:1;stroke-dasharray:2 3}
.hf .hf-arrow{fill:none;stroke:{mark};stroke-width:2}
.hf .hf-arrowtext{fill:{mark};font-weight:600}
.hf .hf-site{fill:{card};stroke:{ink};stroke-width:1.6}
.hf .hf-witness{fill:{card};stroke:{ink};stroke-width:1.6;stroke-dasharray:3 2.5}
.hf .hf-struck{fill:{tint};stroke:{fail};stroke-width:1.8}
.hf .hf-ring{fill:none;stroke:{mark};stroke-width:2.2}
.hf .hf-link{stroke:{mute};stroke-width:2}
.hf .hf-cut{fill:none;stroke:{fail};stroke-width:2.2;stroke-dasharray:4 4}
.hf .hf-cross{fill:none;stroke:{fail};stroke-width:3;stroke-linecap:round}
.hf .hf-sign{fill:none;stroke:{ok};stroke-width:2;stroke-linecap:round;stroke-linejoin:round}
.hf .hf-signbad{fill:none;stroke:{fail};stroke-width:2.2;stroke-linecap:round;stroke-linejoin:round}
.hf .hf-signmute{fill:none;stroke:{mute};stroke-width:2;stroke-linecap:round}
.hf .hf-pillgood{fill:{ok}}
.hf .hf-pillbad{fill:{fail}}
.hf .hf-pillmute{fill:{mute}}
.hf .hf-pilltext{fill:{card};font-weight:700}
`

// css is the style sheet in the given shades.
func (s shades) css() string {
	return strings.NewReplacer(
		"{card}", s.card, "{edge}", s.edge, "{ink}", s.ink, "{mute}", s.mute, "{rule}", s.rule,
		"{ok}", s.ok, "{fail}", s.fail, "{tint}", s.tint, "{slow}", s.slow, "{slowTint}", s.slowTint,
		"{mark}", s.mark, "{fault}", s.fault, "{faultHead}", s.faultHead, "{window}", s.window, "{windowEdge}", s.windowEdge,
	).Replace(sheetTemplate)
}
