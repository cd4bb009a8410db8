package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/remote"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
)

//go:generate go test -run TestDocumentsQuoteFiles -update .

var update = flag.Bool("update", false, "rewrite the files that documents quote")

const root = "../.."

// documents returns README.md and everything below docs, by path from root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	names := []string{"README.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			names = append(names, path[len(root)+1:])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		texts[name] = string(data)
	}
	return texts
}

// Who copies a command out of a document must not meet "unknown flag".
func TestCommandsInDocumentsParse(t *testing.T) {
	found := 0
	for name, text := range documents(t) {
		for _, c := range commandLines(text) {
			found++
			if err := c.check(); err != nil {
				t.Errorf("%s:%d: %s: %v", name, c.line, strings.Join(c.words, " "), err)
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d command lines found; is the search broken?", found)
	}
}

func TestCommandLinesAreFoundAndChecked(t *testing.T) {
	text := "Run `holdfast lab` or `holdfast drill nonsense`, not `holdfast-leader.yaml`.\n" +
		"```\n" +
		"X=1 bin/holdfast drill run partial-split \\\n    --hold 30s > report.txt   # a comment\n" +
		"holdfast lab exec b1 -- holdfast probe 'tcp://h:1?kind=echo' --bogus | head\n" +
		"make build && holdfast lab cut a-b [--new]\n" +
		"holdfast lab cut\n" +
		"holdfast printed this line as output: it has no business here\n" +
		"```\n"
	var got []string
	for _, c := range commandLines(text) {
		verdict := "good"
		if c.check() != nil {
			verdict = "bad"
		}
		got = append(got, fmt.Sprintf("%d %s: %s", c.line, verdict, strings.Join(c.words, " ")))
	}
	want := []string{
		"1 good: lab",
		"1 bad: drill nonsense",
		"3 good: drill run partial-split --hold 30s",
		"5 good: lab exec b1 -- holdfast probe tcp://h:1?kind=echo --bogus",
		"5 bad: probe tcp://h:1?kind=echo --bogus",
		"6 good: lab cut a-b --new",
		"7 bad: lab cut",
		"8 bad: printed this line as output: it has no business here",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// commandLine is a call of holdfast in a document, without the program's name.
type commandLine struct {
	line  int
	words []string
	// whole says that it stands in a code block, to be copied as it is. In a
	// sentence a command may be named without its arguments.
	whole bool
}

// check traverses the real command tree as cobra would, and runs nothing.
func (c commandLine) check() error {
	cmd, rest, err := command().Find(c.words)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil && !errors.Is(err, pflag.ErrHelp) {
		return err
	}
	args := cmd.Flags().Args()
	if cmd.HasSubCommands() && len(args) > 0 && !cmd.Runnable() {
		return fmt.Errorf("no such command: %s", args[0])
	}
	if !c.whole {
		return nil
	}
	return cmd.ValidateArgs(args)
}

var (
	inlineCode = regexp.MustCompile("`[^`]+`")
	program    = regexp.MustCompile(`^(\S*bin/|\./)?holdfast$`)
	assignment = regexp.MustCompile(`^[A-Z_]+=`)
)

func commandLines(text string) []commandLine {
	var all []commandLine
	fenced, held, start := false, "", 0
	for i, line := range strings.Split(text, "\n") {
		if held == "" {
			start = i + 1
		}
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced = !fenced
		case fenced && strings.HasSuffix(line, `\`):
			held += strings.TrimSuffix(line, `\`)
		case fenced:
			all = append(all, calls(held+line, start, true)...)
			held = ""
		default:
			for _, code := range inlineCode.FindAllString(line, -1) {
				all = append(all, calls(strings.Trim(code, "`"), start, false)...)
			}
		}
	}
	return all
}

// calls finds the calls of holdfast in one line of shell; what `lab exec` runs
// in a node counts too.
func calls(shell string, line int, whole bool) []commandLine {
	var all []commandLine
	for _, words := range commandsOf(shell) {
		for len(words) > 0 && (slices.Contains([]string{"$", "sudo", "nice", "env"}, words[0]) || assignment.MatchString(words[0])) {
			words = words[1:]
		}
		for len(words) > 0 && program.MatchString(words[0]) {
			all = append(all, commandLine{line, words[1:], whole})
			inner := slices.Index(words, "--")
			if inner < 0 {
				break
			}
			words = words[inner+1:]
		}
	}
	return all
}

// commandsOf splits a line of shell into commands of words: enough of the
// grammar for documents (quotes, comments, operators, redirections), and
// brackets around what may be left out.
func commandsOf(shell string) [][]string {
	var commands [][]string
	var words []string
	redirected := false
	for _, m := range shellToken.FindAllString(shell, -1) {
		switch {
		case strings.HasPrefix(m, "#"):
			return append(commands, words)
		case strings.HasPrefix(m, ">"):
			redirected = true
		case strings.ContainsAny(m[:1], "|&;"):
			commands, words = append(commands, words), nil
		case redirected:
			redirected = false
		default:
			words = append(words, unquote.Replace(m))
		}
	}
	return append(commands, words)
}

var (
	shellToken = regexp.MustCompile(`[|&;]+|>+|(?:'[^']*'|"[^"]*"|[^\s'"|&;>])+`)
	unquote    = strings.NewReplacer("'", "", `"`, "", "[", "", "]", "")
)

// quoted is a file inside a document: a comment with its path, then a fence.
var quoted = regexp.MustCompile("(?s)(<!-- file: (\\S+) -->\n```\\w*\n)(.*?)(```\n)")

// A guide shows a settings file in full only as it is: the one that other
// tests parse.
func TestDocumentsQuoteFiles(t *testing.T) {
	found := 0
	for name, text := range documents(t) {
		fresh := quoted.ReplaceAllStringFunc(text, func(block string) string {
			m := quoted.FindStringSubmatch(block)
			found++
			data, err := os.ReadFile(filepath.Join(root, m[2]))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return block
			}
			return m[1] + string(data) + m[4]
		})
		if fresh == text {
			continue
		}
		if !*update {
			t.Errorf("%s quotes a file that has changed; run make docs", name)
		} else if err := os.WriteFile(filepath.Join(root, name), []byte(fresh), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if found < 2 {
		t.Errorf("%d quoted files found, not the two samples; is the search broken?", found)
	}
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```\n")

// Every YAML block of the two guides is a file that the program accepts.
func TestYAMLInGuidesIsAccepted(t *testing.T) {
	accept := map[string]func(*testing.T, []byte) error{
		"docs/guide/probe.md": func(t *testing.T, data []byte) error {
			file := filepath.Join(t.TempDir(), "probe.yaml")
			if err := os.WriteFile(file, data, 0o600); err != nil {
				return err
			}
			cfg, err := probe.LoadConfig(file)
			if err != nil {
				return err
			}
			return cfg.Validate()
		},
		"docs/guide/drill.md": func(_ *testing.T, data []byte) error {
			if bytes.Contains(data, []byte("\nhosts:\n")) {
				_, err := remote.ParseInventory("hosts.yaml", data)
				return err
			}
			_, err := scenario.Parse("drill.yaml", data)
			return err
		},
	}
	texts := documents(t)
	for name, check := range accept {
		blocks := yamlBlock.FindAllSubmatch([]byte(texts[name]), -1)
		if len(blocks) < 2 {
			t.Errorf("%s: %d YAML blocks; is the search broken?", name, len(blocks))
		}
		for i, b := range blocks {
			if err := check(t, b[1]); err != nil {
				t.Errorf("%s: YAML block %d, which begins %q: %v", name, i+1, bytes.SplitN(b[1], []byte("\n"), 2)[0], err)
			}
		}
	}
}
