package rustname_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/daeace23/prober/internal/rustname"
)

// The symbols of v0 are from the tests of rustc-demangle.
func TestDemangle(t *testing.T) {
	for symbol, want := range map[string]string{
		"_ZN4core9panicking5panic17h0123456789abcdefE":                                        "core::panicking::panic",
		"_ZN11issue_609253foo37Foo$LT$issue_60925..llv$u6d$..Foo$GT$3foo17h059a991a004536adE": "issue_60925::foo::Foo<issue_60925::llvm::Foo>::foo",
		"_ZN36_$LT$alloc..string..String$u20$as$u20$x$GT$3fmt17h0123456789abcdefE":            "",
		"_ZN46_$LT$alloc..string..String$u20$as$u20$x..Y$GT$3fmt17h0123456789abcdefE":         "<alloc::string::String as x::Y>::fmt",
		"_ZN4main4main17h0123456789abcdeE":                                                    "", // another hash
		"_ZN4main4main17hx123456789abcdefE":                                                   "",
		"_ZN3foo3barEv":                                                                       "", // C++
		"_ZN":                                                                                 "",
		"_ZN9999aE":                                                                           "",
		"_RNvC6_123foo3bar":                                                                   "123foo::bar",
		"_RNvCs1234_7mycrate3foo.llvm.9":                                                      "mycrate::foo",
		"_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_":                                                "cc::spawn::{closure#0}::{closure#0}",
		"_RNvMC0INtC8arrayvec8ArrayVechKj7b_E3new":                                            "<arrayvec::ArrayVec<u8, 123>>::new",
		"_RMCs4fqI2P2rA04_13const_genericINtB0_6SignedKanb_E":                                 "<const_generic::Signed<-11>>",
		"_RNvNvMCs4fqI2P2rA04_13const_genericINtB4_3FooKpE3foo3FOO":                           "<const_generic::Foo<_>>::foo::FOO",
		"_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_ECs1iopQbuBiw2_3std": "alloc::alloc::box_free::<dyn alloc::boxed::FnBox<()><Output = ()>>",
		"_RINvC1a1bFUKCRmPhOaQxTsEEu":                                       "",
		"_RINvC1a1bFKCRmPhTsEEuE":                                           `a::b::<extern "C" fn(&u32, *const u8, (i16,))>`,
		"_RINvC1a1bFUTlmEEzASjj3_E":                                         "a::b::<unsafe fn((i32, u32)) -> !, [[usize]; 3]>",
		"_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y": "utf8_idents::punycode{___7hkackfecea1cbdathfdh9hlq6y}",
		"_RNvB_1a": "", // refers to itself
		"_R":       "",
		"main.run": "",
		"":         "",
	} {
		got, ok := rustname.Demangle(symbol)
		if !ok {
			got = ""
		}
		if got != want || ok != (want != "") {
			t.Errorf("%s: got %q, %t, want %q", symbol, got, ok, want)
		}
	}
}

func TestDemangleIsBounded(t *testing.T) {
	// Each reference doubles the name.
	var doubled strings.Builder
	doubled.WriteString("_RINvC1a1b")
	for range 60 {
		doubled.WriteString("TB2_B2_E")
	}
	for name, symbol := range map[string]string{
		"many references": doubled.String() + "E",
		"deep":            "_R" + strings.Repeat("I", 3000),
		"long":            "_RNvC1a4000" + strings.Repeat("x", 4000),
		"too long":        "_R" + strings.Repeat("N", 1<<20),
	} {
		begin := time.Now()
		got, _ := rustname.Demangle(symbol)
		if took := time.Since(begin); len(got) > 1<<10+3 || took > time.Second {
			t.Errorf("%s: %d bytes after %v", name, len(got), took)
		}
	}
}

func FuzzDemangle(f *testing.F) {
	for _, seed := range []string{
		"_ZN4core9panicking5panic17h0123456789abcdefE", "_RINvC1a1bFUTlmEEzASjj3_E", "_RNvMC0INtC8arrayvec8ArrayVechKj7b_E3new",
		"_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_ECs1iopQbuBiw2_3std",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, symbol string) {
		name, ok := rustname.Demangle(symbol)
		if len(name) > 1<<10+3 || ok && name == "" || utf8.ValidString(symbol) && !utf8.ValidString(name) {
			t.Errorf("%q is %q, %t", symbol, name, ok)
		}
	})
}
