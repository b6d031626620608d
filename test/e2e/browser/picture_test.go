package browser

import (
	"bytes"
	"cmp"
	"flag"
	"image"
	"image/color"
	"image/png"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var images = flag.String("images", "", "the folder of the pictures of the documents, which are written again")

// maxPicture is the maximum size of a picture of the documents, in bytes.
const maxPicture = 150_000

// TestPictures takes the pictures of the documents, which show a fake agent. It writes them only with
// -images.
func TestPictures(t *testing.T) {
	f := startFake(t)
	for _, p := range []struct {
		name, hash, ready string
		look              view
		top               string // a selector of what is at the top
	}{
		{"overview", "#/", `document.querySelectorAll("a.item").length >= 5 && document.querySelector(".foot").innerText.includes("v1.4.0") && document.body.innerText.includes("in quarantine")`, view{1200, 760, false, false}, ""},
		{"overview-dark", "#/", `document.querySelectorAll("a.item").length >= 5 && document.querySelector(".foot").innerText.includes("v1.4.0") && document.body.innerText.includes("in quarantine")`, view{1200, 760, true, false}, ""},
		{"probe", "#/probe/shop/checkout/app/readiness", `document.querySelector("[data-part=cause] pre") && document.querySelectorAll("svg.chart").length === 3`, view{1200, 860, false, false}, ""},
		{"durations", "#/probe/shop/checkout/app/readiness?since=7d&with=targets%2Fsites-api-example-com%2Ftarget%2Freadiness", `document.querySelectorAll("path.duration").length === 2 && document.querySelector("rect.heat-cell")`, view{1200, 900, false, false}, "section[aria-label=Durations]"},
		{"probes", "#/probes", `document.querySelectorAll(".space a.open[href]").length > 12 && ![...document.querySelectorAll(".strip .unseen")].some((e) => e.textContent.endsWith("of 1 failed"))`, view{1200, 620, true, false}, ""},
		{"availability", "#/availability?since=30d", `document.querySelectorAll(".space a.open").length > 12`, view{1200, 620, false, false}, ""},
		{"phone", "#/", `document.querySelectorAll("a.item").length >= 5 && document.querySelector(".foot").innerText.includes("v1.4.0") && document.body.innerText.includes("in quarantine")`, view{390, 780, false, true}, ""},
		{"wall", "#/wall", `document.querySelectorAll(".item").length >= 5 && document.querySelector(".foot").innerText.includes("v1.4.0") && document.body.innerText.includes("in quarantine")`, view{1600, 900, true, false}, ""},
	} {
		t.Run(p.name, func(t *testing.T) {
			b := open(t, f.server.URL+"/"+p.hash, p.look)
			b.wait(p.ready)
			b.wait(`document.querySelector("#link").dataset.link === "live"`)
			if p.top != "" {
				b.eval(`(scrollTo(0, document.querySelector("`+p.top+`").getBoundingClientRect().top + scrollY - 60), true)`, new(bool))
			}
			picture := shrink(t, b.shot("picture-"+p.name))
			if len(picture) > maxPicture {
				t.Errorf("%d bytes, more than %d", len(picture), maxPicture)
			}
			if *images != "" && p.name != "wall" { // the wall shows a clock
				if err := os.WriteFile(filepath.Join(*images, p.name+".png"), picture, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// shrink returns a picture with a palette of 256 colors: the most frequent ones, and then each time the one
// farthest from all previous ones. Each pixel gets the nearest color of the palette.
func shrink(t *testing.T, text []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	box, counts := from.Bounds(), map[color.RGBA]int{}
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			counts[color.RGBAModel.Convert(from.At(x, y)).(color.RGBA)]++
		}
	}
	palette := paletteOf(counts)
	nearest := map[color.RGBA]uint8{}
	for c := range counts {
		nearest[c] = uint8(palette.Index(c))
	}
	to := image.NewPaletted(box, palette)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			to.SetColorIndex(x, y, nearest[color.RGBAModel.Convert(from.At(x, y)).(color.RGBA)])
		}
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, to); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func paletteOf(counts map[color.RGBA]int) (palette color.Palette) {
	left := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	far := make([]int, len(left))
	for i := range far {
		far[i] = math.MaxInt
	}
	for len(palette) < min(len(left), 256) {
		next := len(palette)
		if next >= 128 {
			next = slices.Index(far, slices.Max(far))
		}
		palette = append(palette, left[next])
		for i, c := range left {
			r, g, b := int(c.R)-int(left[next].R), int(c.G)-int(left[next].G), int(c.B)-int(left[next].B)
			far[i] = min(far[i], r*r+g*g+b*b)
		}
	}
	return palette
}
