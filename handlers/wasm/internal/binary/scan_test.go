package binary

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

var scans = flag.Int("scans", 20, "number of random functions for which the scanner is compared with wazero")

// optional are the features that can be detected with wazero: it refuses a module that needs a
// disabled feature.
var optional = []api.CoreFeatures{
	api.CoreFeatureSignExtensionOps, api.CoreFeatureNonTrappingFloatToIntConversion,
	api.CoreFeatureBulkMemoryOperations, api.CoreFeatureReferenceTypes, api.CoreFeatureSIMD,
}

func newDecoders(t testing.TB) map[api.CoreFeatures]wazero.Runtime {
	decoders := make(map[api.CoreFeatures]wazero.Runtime)
	for _, off := range append([]api.CoreFeatures{0}, optional...) {
		config := wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2 &^ off)
		runtime := wazero.NewRuntimeWithConfig(context.Background(), config)
		t.Cleanup(func() { runtime.Close(context.Background()) })
		decoders[off] = runtime
	}
	return decoders
}

func decode(runtime wazero.Runtime, code []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	module, err := runtime.CompileModule(context.Background(), code)
	if err == nil {
		err = module.Close(context.Background())
	}
	return err
}

// aroundBody returns a module with one function. The function begins with unreachable, so that most
// sequences of instructions after it are valid.
func aroundBody(body []byte, counted bool) []byte {
	section := func(id byte, body ...byte) []byte {
		return append(binary.AppendUvarint([]byte{id}, uint64(len(body))), body...)
	}
	types := []byte{70}
	for i := range 70 {
		types = append(types, []string{"\x60\x00\x00", "\x60\x01\x7f\x00", "\x60\x02\x7f\x70\x00", "\x60\x01\x7e\x02\x7b\x7f"}[i%4]...)
	}
	function := append(append([]byte{1, 2, 0x7f, 0x00}, body...), 0x0b) // two locals
	parts := [][]byte{
		[]byte("\x00asm\x01\x00\x00\x00"), section(1, types...), section(3, 1, 0), section(4, 1, 0x70, 0, 1), section(5, 1, 0, 1),
		section(6, 2, 0x7f, 1, 0x41, 0, 0x0b, 0x7e, 1, 0x42, 0, 0x0b), section(7, 1, 1, 'f', 0, 0), section(9, 1, 0, 0x41, 0, 0x0b, 1, 0),
	}
	if counted {
		parts = append(parts, section(12, 1))
	}
	code := append(binary.AppendUvarint([]byte{1}, uint64(len(function))), function...)
	return bytes.Join(append(parts, section(10, code...), section(11, 1, 0, 0x41, 0, 0x0b, 1, 'x')), nil)
}

// hasLongNumber reports whether four consecutive bytes have the continuation bit. wazero accepts some
// block types that are not 33-bit integers.
func hasLongNumber(code []byte) bool {
	run := 0
	for _, b := range code {
		if run++; b < 0x80 {
			run = 0
		}
		if run == 4 {
			return true
		}
	}
	return false
}

// compareScan compares the features that Inspect and wazero find in a valid module.
func compareScan(decoders map[api.CoreFeatures]wazero.Runtime, code []byte, counted bool) error {
	m, err := Inspect(code, 100)
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "type 0x63 is not") || strings.Contains(err.Error(), "type 0x64 is not") || hasLongNumber(code),
		strings.HasSuffix(err.Error(), relaxedSIMD.off), strings.HasSuffix(err.Error(), halfPrecision.off):
		return nil // wazero accepts these, and no toolchain emits them
	default:
		return fmt.Errorf("%x: %w", code, err)
	}
	if !m.Metered {
		return fmt.Errorf("%x: it is not metered: %s", code, m.Unmetered)
	}
	if err := decode(decoders[0], m.Code); err != nil {
		return fmt.Errorf("%x: metered, it is %x: %w", code, m.Code, err)
	}
	for _, feature := range optional {
		if counted && feature == api.CoreFeatureBulkMemoryOperations {
			continue // the section needs the feature, regardless of the code
		}
		err := decode(decoders[feature], code)
		needed := err != nil && strings.Contains(err.Error(), fmt.Sprintf("feature %q is disabled", feature))
		if err != nil && !needed {
			continue // wazero validates a br_table differently without reference types
		}
		if found := m.Features.IsEnabled(feature); found != needed {
			return fmt.Errorf("%x: feature %q: found %v, wazero says %v", code, feature, found, needed)
		}
	}
	if m.Features.IsEnabled(api.CoreFeatureReferenceTypes) && !m.Volatile {
		return errors.New("a module with reference types is reset")
	}
	return nil
}

// FuzzScanAgainstWazero compares the features that Inspect and wazero find in any valid function.
func FuzzScanAgainstWazero(f *testing.F) {
	for _, seed := range []string{"\xfd\x83\x41\x44\x1a\x1a", "\x1c\x01\x63\x02\x1a", "\x02\x82\x80\x80\x80\x80\x26\x00\x0b", "\x26\x00", "\xfc\x8e\x80\x00\x00\x00", "\xd0\x70", "\x0e\x01\x00\x00"} {
		f.Add([]byte(seed), false)
	}
	decoders := newDecoders(f)
	f.Fuzz(func(t *testing.T, body []byte, counted bool) {
		body = append([]byte{0x00}, body...)
		for range 4 { // end blocks that are still open
			code := aroundBody(body, counted)
			if decode(decoders[0], code) == nil {
				if err := compareScan(decoders, code, counted); err != nil {
					t.Fatal(err)
				}
				return
			}
			body = append(body, 0x0b)
		}
	})
}

// TestScanReadsImmediatesAsWazero tries every opcode with immediates of every length, followed by
// ref.func.
func TestScanReadsImmediatesAsWazero(t *testing.T) {
	decoders := newDecoders(t)
	var opcodes [][]byte
	for op := range 256 {
		opcodes = append(opcodes, []byte{byte(op)}, []byte{0xfc, byte(op)}, []byte{0xfd, byte(op)})
	}
	immediates := [][]byte{{}}
	for _, length := range []int{1, 2, 3, 4, 8, 16} {
		for _, last := range []byte{0x00, 0x0c, 0x70} {
			immediates = append(immediates, append(make([]byte, length-1), last))
		}
	}
	accepted := 0
	for _, op := range opcodes {
		for _, immediate := range immediates {
			body := append(append([]byte{0x00}, op...), immediate...)
			body = append(body, 0xd2, 0x00, 0x1a, 0x00)
			for range 2 {
				code := aroundBody(body, true)
				body = append(body, 0x0b)
				if decode(decoders[0], code) != nil {
					continue
				}
				accepted++
				if err := compareScan(decoders, code, true); err != nil {
					t.Error(err)
				}
			}
		}
	}
	t.Logf("wazero accepts %d modules", accepted)
	if accepted < 1000 {
		t.Errorf("wazero accepts %d of them", accepted)
	}
}

// TestScanFindsFeaturesAsWazero builds valid functions from random bytes.
func TestScanFindsFeaturesAsWazero(t *testing.T) {
	decoders := newDecoders(t)
	seen := make(map[string]int)
	for seed := range *scans {
		random := rand.New(rand.NewPCG(uint64(seed), 0))
		body, counted := []byte{0x00}, seed%2 == 0
		for open, tries := 0, 0; tries < 200 && len(body) < 300; tries++ {
			chunk := randomInstruction(random)
			for _, ends := range []int{open, open + 1, open - 1} {
				if ends < 0 {
					continue
				}
				whole := append(append(bytes.Clone(body), chunk...), bytes.Repeat([]byte{0x0b}, ends)...)
				code := aroundBody(whole, counted)
				if decode(decoders[0], code) != nil {
					continue
				}
				body, open = append(body, chunk...), ends
				seen[fmt.Sprintf("%x", chunk[:min(len(chunk), 1+int(chunk[0]/0xfc))])]++
				if err := compareScan(decoders, code, counted); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				break
			}
		}
	}
	t.Logf("%d opcodes", len(seen))
	for _, op := range []string{"26", "25", "1c", "d0", "fc08", "fc09", "fc0a", "fc0c", "fc0d", "fc0e", "fc0f", "fc11", "fd0c", "fd83", "c0", "0e"} {
		if seen[op] == 0 && *scans >= 1000 {
			t.Errorf("no function had an instruction %s", op)
		}
	}
}

// randomInstruction returns an opcode and random bytes.
func randomInstruction(random *rand.Rand) []byte {
	chunk := []byte{byte(random.Uint32())}
	switch random.IntN(5) {
	case 0:
		chunk = []byte{0xfc, byte(random.IntN(18))}
	case 1:
		chunk = []byte{0xfd, byte(random.Uint32())}
	case 2: // opcodes that random bytes rarely hit
		chunk = []byte([]string{"\x1c\x01", "\xd0\x70", "\x0e\x01\x00", "\x02\x80\x80\x80\x80", "\x02\x63", "\xfd\x0c", "\xfd\x83"}[random.IntN(7)])
	}
	behind := []int{0, 1, 2, 2, 3, 4, 6, 8, 16, 18}[random.IntN(10)]
	for range behind {
		b := byte(random.IntN(4))
		switch random.IntN(8) {
		case 0:
			b = []byte{0x26, 0x41, 0x44, 0x63, 0x64, 0x70, 0x7f, 0x40, 0x0e, 0x1a}[random.IntN(10)]
		case 1:
			b |= 0x80
		case 2:
			b = byte(random.Uint32())
		}
		chunk = append(chunk, b)
	}
	return chunk
}
