() => {
  // What the server cannot do: the address bar, the scroll position, keys, sheets on a small screen.
  const find = (selector) => document.querySelector(selector);
  const body = document.body;
  let app = body;  // our own root element, once it is there

  /** False where the page is not ready to ask anything. */
  const ask = (detail) => !document.dispatchEvent(new CustomEvent('glassloop:do', {detail, cancelable: true}));

  // ---- facts from the server

  const readFacts = () => {
    const facts = find('#gl-facts')?.dataset;
    if (!facts) return;
    app.dataset.running = facts.running;
    document.title = facts.title;
    document.documentElement.lang = facts.lang;
    const field = box();
    if (field && field.placeholder !== facts.placeholder) {
      field.placeholder = facts.placeholder;
      field.setAttribute('aria-label', facts.placeholder);
    }
    for (const name of ['send', 'stop']) {
      const button = find(`#gl-${name}`);
      if (button) { button.title = facts[name]; button.setAttribute('aria-label', facts[name]); }
    }
    const mustToggle = find('#gl-must-toggle'), mustFacts = find('#gl-must-facts')?.dataset;
    if (must() && mustToggle && mustFacts) {
      must().placeholder = mustFacts.more;
      mustToggle.title = mustFacts.label;
      for (const part of [must(), mustToggle]) part.setAttribute('aria-label', mustFacts.label);
      mustToggle.setAttribute('aria-expanded', String(!!app.dataset.must));
    }
    const search = find('#gl-search input, #gl-search textarea');
    if (search && search.placeholder !== facts.search) {
      search.placeholder = facts.search;
      search.setAttribute('aria-label', facts.search);
      search.type = 'search';
    }
    if (field && facts.editing && facts.editing !== editing) { field.focus(); field.setSelectionRange(9e6, 9e6); }
    if (editing && !facts.editing) endEdit(editSent || session !== facts.session);
    editing = facts.editing;
    name(facts.session);
    if (field && !session) takeUpDrafts();
    if (session !== facts.session) { session = facts.session; atBottom = true; follow(); }
    if (facts.place !== place) { place = facts.place; if (place) goTo(place); }
  };

  // ---- the address bar names the conversation, and Back goes to the one before

  let editing = '';
  const named = () => new URL(location.href).searchParams.get('session');
  const name = (id) => {
    const before = named();
    if (!id || before === id) return;
    const url = new URL(location.href);
    url.searchParams.set('session', id);
    // What the page opened with is not a place to go back to; a conversation that was chosen is.
    history[before && session ? 'pushState' : 'replaceState'](history.state, '', url);
  };
  addEventListener('popstate', () => { if (named() && named() !== session) ask({do: 'open', id: named()}); });

  // ---- the message box: what is sent leaves it at once; what comes back goes before what has been typed since

  const unheard = new Map();  // messages by number: sent, but the server has not said yet that it has them
  let lastSent = 0, lastPut = 0;
  let aside = null;  // what stood in the box before an edit
  let editSent = false;
  const box = () => find('#gl-box textarea'), must = () => find('#gl-must textarea');
  const write = (field, text) => {
    field.value = text;
    field.dispatchEvent(new Event('input', {bubbles: true}));
  };
  const joined = (texts, between) => texts.filter((text) => text?.trim()).join(between);
  const putBefore = (text, lines) => {
    if (text) write(box(), joined([text, box().value], '\n\n'));
    if (lines) write(must(), joined([lines, must().value], '\n'));
  };

  const sendMessage = (steer) => {
    const message = {text: box().value, must: must().value};
    if (!session || !(message.text.trim() || app.dataset.attached)) return;
    if (!ask({do: 'send', number: lastSent + 1, steer, ...message})) return;
    unheard.set(++lastSent, message);
    editSent = !!editing;
    atBottom = true;
    write(box(), '');
    write(must(), '');
    app.dataset.must = '';
    find('#gl-must-toggle').setAttribute('aria-expanded', 'false');
  };
  const readBack = () => {
    const facts = find('#gl-back-facts')?.dataset;
    if (!facts || !box()) return;
    for (const number of unheard.keys()) if (number <= facts.heard) unheard.delete(number);
    for (const one of JSON.parse(facts.put)) {
      if (one.number <= lastPut) continue;
      lastPut = one.number;
      if (!one.aside) { putBefore(one.text, one.must); continue; }
      aside ??= box().value;
      editSent = false;
      write(box(), one.text);
    }
  };
  const endEdit = (keep) => {
    // once it is sent, the box holds what was typed since; where it was cancelled, what is not to be sent
    write(box(), joined([aside, keep ? box().value : ''], '\n\n'));
    aside = null;
  };

  // A reload keeps what was being written, in this tab only, and what the server may not have got.
  const drafts = {
    '#gl-box textarea': () => joined([...[...unheard.values()].map((one) => one.text), aside, box()?.value], '\n\n'),
    '#gl-must textarea': () => joined([...[...unheard.values()].map((one) => one.must), must()?.value], '\n'),
  };
  addEventListener('pagehide', () => {
    for (const [field, text] of Object.entries(drafts)) sessionStorage.setItem(`glassloop ${field}`, text());
  });
  const takeUpDrafts = () => {
    for (const name of Object.keys(drafts)) {
      const field = find(name), text = sessionStorage.getItem(`glassloop ${name}`);
      if (field && !field.value && text) write(field, text);
    }
  };

  // ---- scrolling: stay at the bottom unless the person has scrolled up

  let session = '';
  let atBottom = true;
  const follow = () => {
    const scroll = find('#gl-scroll');
    if (scroll && atBottom) scroll.scrollTop = find('.gl-welcome') ? 0 : scroll.scrollHeight;
  };
  const watchScroll = (scroll) => {
    // Layout moves the content as well (a finished turn changes places, a picture arrives): only what follows a
    // person's hand counts as scrolling up.
    let last = scroll.scrollTop, touched = 0;
    for (const kind of ['wheel', 'touchmove', 'pointerdown', 'keydown'])
      scroll.addEventListener(kind, () => { touched = performance.now(); }, {passive: true});
    scroll.addEventListener('scroll', () => {
      const distance = scroll.scrollHeight - scroll.clientHeight - scroll.scrollTop;
      if (distance < 48) atBottom = true;
      else if (scroll.scrollTop < last && performance.now() - touched < 1000) atBottom = false;
      last = scroll.scrollTop;
    }, {passive: true});
    scroll.addEventListener('click', (event) => {
      // an opened step is to be read where it is, not scrolled out of sight by what streams below it
      if (event.target.closest('.thought-group [role=button]')) atBottom = false;
    });
    const sizes = new ResizeObserver(follow);
    sizes.observe(scroll);
    for (const child of scroll.children) sizes.observe(child);
  };

  // ---- a place that was found: the step, or the words in the turn

  let place = '';
  const goTo = (wanted) => {
    const [, turn, seq] = wanted.split('.');
    const until = performance.now() + 5000;
    atBottom = false;
    const look = () => {
      const target = find(`#gl-scroll .gl-at-${seq}`)?.closest('.thought-group') ?? saidIn(turn);
      if (target) {
        target.scrollIntoView({block: target.offsetHeight > innerHeight / 2 ? 'start' : 'center'});
        target.classList.add('gl-found');
        setTimeout(() => target.classList.remove('gl-found'), 4000);
      } else if (place === wanted && performance.now() < until) setTimeout(look, 50);
    };
    look();
  };
  const saidIn = (turn) => {
    const link = find(`#gl-scroll :is(a[href="#do-edit-${turn}"], a[href="#do-retry-${turn}"])`);
    const first = link?.closest('.message-row');
    if (!first) return null;
    const words = (find('#gl-search input, #gl-search textarea')?.value ?? '').toLowerCase().split(/\s+/).filter(Boolean);
    for (let row = first; row && (row === first || !row.matches('.user-row')); row = row.nextElementSibling)
      for (const said of row.querySelectorAll('.prose')) {
        const has = (element) => (word) => element.textContent.toLowerCase().includes(word);
        if (words.length && words.every(has(said)))
          return [...said.children].find((part) => words.some(has(part))) ?? said;
      }
    return first;
  };

  // ---- sheets, theme, links to a request

  const sheet = (name) => {
    const wide = matchMedia('(min-width: 1100px)').matches;
    if (wide && name === 'right') app.classList.toggle('gl-no-right');
    else app.dataset.open = app.dataset.open === name ? '' : name;
  };
  const wantsDark = localStorage.getItem('glassloop-theme') ??
    (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
  body.classList.toggle('dark', wantsDark === 'dark');
  document.addEventListener('click', (event) => {
    const target = event.target.closest('#gl-send,[data-sheet],[data-theme],[data-do],[data-close-sheet],[data-import],[data-add-files],[data-mention],[data-fill],a[href^="#request-"],a[href^="#do-"]');
    if (!target) {
      if (!event.target.closest('#gl-left,#gl-right')) app.dataset.open = '';
      closeMenus(event.target);
      return;
    }
    closeMenus(event.target);
    if (target.dataset.sheet !== undefined) sheet(target.dataset.sheet);
    if (target.dataset.theme !== undefined) {
      const dark = body.classList.toggle('dark');
      localStorage.setItem('glassloop-theme', dark ? 'dark' : 'light');
    }
    if (target.dataset.closeSheet !== undefined) app.dataset.open = '';
    if (target.dataset.do === 'language') {
      const where = window === top ? 'samesite=lax' : 'samesite=none;secure;partitioned';  // in a frame of another site
      document.cookie = `glassloop_language=${target.dataset.value};path=/;max-age=31536000;${where}`;
    }
    if (target.dataset.fill !== undefined) fill(target);
    if (target.id === 'gl-send') sendMessage(false);
    if (target.dataset.do === 'send') atBottom = true;
    if (target.dataset.showRight !== undefined) showRight();
    if (target.matches('a[href^="#request-"]')) {
      event.preventDefault();
      ask({do: 'request', value: target.hash.slice('#request-'.length)});
      showRight();
    }
    if (target.matches('a[href^="#do-"]')) {
      event.preventDefault();
      const [, what, which] = /^#do-([a-z_]+)-(.*)$/.exec(target.getAttribute('href')) ?? [];
      if (what === 'copy') copyAnswer(target);
      else if (what) ask({do: what, value: decodeURIComponent(which)});
      if (what === 'changes') showRight();
      if (what === 'retry') atBottom = true;
    }
    if (target.dataset.import !== undefined) bringIn();
    if (target.dataset.addFiles !== undefined) addFiles(target.dataset.addFiles);
    if (target.dataset.mention !== undefined) mention(target.dataset.mention);
  });
  const closeMenus = (except) => {
    for (const open of document.querySelectorAll('.gl-badge[open], .gl-menu[open]'))
      if (!open.contains(except) || except.closest('.gl-menu-list')) open.open = false;
  };
  const showRight = () => { app.classList.remove('gl-no-right'); app.dataset.open = 'right'; };

  // ---- copy an answer: the last text of the model above the link

  const copyAnswer = async (link) => {
    const row = link.closest('.message-row');
    const texts = [...row.querySelectorAll('.prose')].filter(
      (text) => !text.closest('.thought-group') && !text.querySelector('.gl-acts, .gl-end, .gl-quiet, .gl-file'));
    const text = texts.at(-1)?.innerText ?? '';
    try { await navigator.clipboard.writeText(text); } catch {
      const area = Object.assign(document.createElement('textarea'), {value: text});
      body.append(area); area.select(); document.execCommand('copy'); area.remove();
    }
    const label = link.textContent;
    link.textContent = find('#gl-facts').dataset.copied;
    setTimeout(() => { link.textContent = label; }, 1500);
  };

  // ---- a conversation from a file

  const bringIn = () => {
    const input = Object.assign(document.createElement('input'), {type: 'file', accept: '.jsonl,.html'});
    input.addEventListener('change', async () => {
      let answer;
      try {
        const sent = await fetch('/sessions/import',
          {method: 'POST', body: input.files[0], headers: {'x-glassloop': '1', 'content-type': 'application/octet-stream'}});
        answer = await sent.json();
      } catch (error) { answer = {why: error.message}; }
      ask({do: 'imported', ...answer});
    });
    input.click();
  };

  // ---- what a person writes or opens in a panel stays when the server draws the panel anew
  // Held by its `data-keep`, as long as something of that name is in the page. Nothing of it is stored. Gradio lays new
  // markup over old elements in their order, so an element may become another one and still hold what was written.

  const kept = new Map(), nameOf = new WeakMap();
  let focused = '';
  const stateOf = (part) =>
    part.tagName === 'DETAILS' ? {open: part.open} : part.type === 'checkbox' ? {checked: part.checked} : {value: part.value};
  for (const kind of ['input', 'change'])
    document.addEventListener(kind, ({target}) => {
      if (target.dataset.keep) kept.set(target.dataset.keep, stateOf(target));
    });
  document.addEventListener('click', ({target}) => {
    const opened = target.closest?.('details[data-keep] > summary')?.parentElement;
    if (opened) kept.set(opened.dataset.keep, {open: !opened.open});
  });
  document.addEventListener('focusin', (event) => { focused = event.target.dataset?.keep ?? ''; });
  document.addEventListener('focusout', (event) => {
    // one that was drawn anew has lost the focus too, but nobody took it away
    queueMicrotask(() => { if (event.target.isConnected && event.target.dataset.keep === focused) focused = ''; });
  });
  let selection = [];
  document.addEventListener('selectionchange', () => {
    const field = document.activeElement;
    try { if (field.dataset.keep) selection = [field.selectionStart, field.selectionEnd]; } catch { selection = []; }
  });

  const restore = () => {
    const there = new Set();
    for (const part of document.querySelectorAll('[data-keep]')) {
      const name = part.dataset.keep;
      there.add(name);
      if (kept.has(name)) assign(part, kept.get(name));
      else if (nameOf.has(part) && nameOf.get(part) !== name) assign(part, asWritten(part));
      nameOf.set(part, name);
      if (name === focused && document.activeElement !== part) {
        part.focus({preventScroll: true});
        try { part.setSelectionRange(...selection); } catch { /* a field of a kind that has no selection */ }
      }
    }
    for (const name of kept.keys()) if (!there.has(name)) kept.delete(name);
    if (focused && !there.has(focused)) {
      focused = '';
      if (document.activeElement.dataset.keep) document.activeElement.blur();
    }
    for (const time of document.querySelectorAll('time[data-at]:empty')) time.textContent = clock(time.dataset.at * 1000);
    for (const chip of document.querySelectorAll('[data-fill]')) press(chip, filled(chip)?.value === chip.value);
    watchDialog();
  };
  const asWritten = (part) =>
    part.tagName === 'DETAILS' ? {open: 'unfolded' in part.dataset} : part.type === 'checkbox' ? {checked: part.defaultChecked} :
      {value: part.tagName === 'SELECT' ? (part.querySelector('[selected]') ?? part[0]).value : part.defaultValue};
  const assign = (part, state) => {
    for (const [name, value] of Object.entries(state)) if (part[name] !== value) part[name] = value;
  };
  const clock = (at) => {
    const hour = {hour: '2-digit', minute: '2-digit'}, date = new Date(at);
    const today = date.toDateString() === new Date().toDateString();
    return date.toLocaleString(document.documentElement.lang || [], today ? hour : {month: 'short', day: 'numeric', ...hour});
  };
  const press = (chip, pressed) => {
    if (chip.ariaPressed !== String(pressed)) chip.ariaPressed = String(pressed);
  };
  const filled = (chip) => chip.closest('[data-form]')?.querySelector(`[name="${chip.dataset.fill}"]`);
  const fill = (chip) => {
    const field = filled(chip);
    field.value = chip.value;
    field.dispatchEvent(new Event('input', {bubbles: true}));
    for (const other of chip.parentElement.querySelectorAll('[data-fill]')) press(other, other === chip);
  };

  // ---- a dialog of the sheet has the page to itself

  let inDialog = false;
  const watchDialog = () => {
    const dialog = find('#gl-sheet [role=dialog]');
    if (!!dialog === inDialog) return;
    inDialog = !!dialog;
    for (const part of ['#gl-header', '#gl-main']) find(part).inert = inDialog;
    if (dialog) dialog.querySelector('[data-first]')?.focus();
    else [...document.querySelectorAll('button.gl-model')].find((button) => button.offsetParent)?.focus();
  };

  // ---- files of the workspace

  const addFiles = (address) => {
    const input = Object.assign(document.createElement('input'), {type: 'file', multiple: true});
    input.addEventListener('change', async () => {
      for (const file of input.files) {
        let answer;
        try {
          const sent = await fetch(`${address}?name=${encodeURIComponent(file.name)}`,
            {method: 'POST', body: file, headers: {'x-glassloop': '1', 'content-type': 'application/octet-stream'}});
          answer = await sent.json();
        } catch (error) { answer = {why: error.message}; }
        if (answer.why) ask({do: 'file_not_added', name: file.name, why: answer.why});
      }
    });
    input.click();
  };
  const mention = (path) => {
    const field = box();
    const before = field.value && !/\s$/.test(field.value) ? `${field.value} ` : field.value;
    write(field, `${before}\`${path}\` `);
    app.dataset.open = '';
    field.focus();
    field.setSelectionRange(9e6, 9e6);
  };

  // ---- keys

  document.addEventListener('keydown', (event) => {
    if (event.isComposing) return;
    if (event.key === 'Escape') {
      const cancel = find('[data-do=models_close]') ?? find('.gl-rename [data-do$=rename_cancel], [data-do=compare_close], [data-do=undo_cancel], [data-do=edit_cancel]');
      if (cancel) cancel.click();
      else if (app.dataset.open) app.dataset.open = '';
      else if (app.dataset.running) find('#gl-stop')?.click();
    }
    if (event.key === 'Enter' && event.target.closest?.('.gl-rename')) event.target.closest('.gl-rename').querySelector('[data-do$=rename_save]').click();
  });

  // Enter sends. With Ctrl while a turn runs, the message enters it; in the box for what must be true, only with Ctrl.
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing || event.keyCode === 229) return;  // 229: Safari's word for composing
    const withCtrl = event.ctrlKey || event.metaKey;
    if (!event.target.closest?.(withCtrl ? '#gl-box,#gl-must' : '#gl-box')) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    sendMessage(withCtrl && !!app.dataset.running && !editing);
  }, true);

  // ---- what must be true at the end, beside the message box

  const showMust = (open) => {
    app.dataset.must = open ? '1' : '';
    find('#gl-must-toggle').setAttribute('aria-expanded', String(open));
    find(open ? '#gl-must textarea' : '#gl-box textarea').focus();
  };
  document.addEventListener('click', (event) => {
    if (event.target.closest('#gl-must-toggle')) showMust(!app.dataset.must);
  });
  document.addEventListener('input', (event) => {
    if (event.target.closest?.('#gl-must')) find('#gl-must-toggle').classList.toggle('gl-set', !!event.target.value.trim());
  });
  addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || event.isComposing || !event.target.closest?.('#gl-must')) return;
    event.stopPropagation();  // Escape would stop the turn otherwise
    showMust(false);
  }, true);

  // ---- begin when the page's parts are there

  new MutationObserver((_, observer) => {
    const scroll = find('#gl-scroll'), state = find('#gl-state');
    if (!scroll || !state || !find('#gl-back')) return;
    observer.disconnect();
    app = find('#gl-app');
    watchScroll(scroll);
    for (const panel of ['#gl-list', '#gl-right'])
      new MutationObserver(() => {
        const field = find('[data-focus]');
        if (field) { field.removeAttribute('data-focus'); field.focus(); field.select(); }
      }).observe(find(panel), {subtree: true, childList: true});
    for (const panel of ['#gl-dock', '#gl-right', '#gl-sheet'])
      new MutationObserver(restore).observe(find(panel),
        {subtree: true, childList: true, attributeFilter: ['open', 'value', 'data-keep', 'aria-pressed']});
    const read = () => { readBack(); readFacts(); };
    for (const facts of [state, find('#gl-back')])
      new MutationObserver(read).observe(facts, {subtree: true, childList: true, attributes: true});
    read();
  }).observe(body, {subtree: true, childList: true});
}
