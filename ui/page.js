() => {
  // What the server cannot do: the address bar, the scroll position, keys, sheets on a small screen.
  const find = (selector) => document.querySelector(selector);
  const body = document.body;
  let app = body;  // our own root element, once it is there

  const ask = (detail) => document.dispatchEvent(new CustomEvent('glassloop:do', {detail}));

  // ---- facts from the server

  const readFacts = () => {
    const facts = find('#gl-facts')?.dataset;
    if (!facts) return;
    app.dataset.running = facts.running;
    document.title = facts.title;
    document.documentElement.lang = facts.lang;
    const box = find('#gl-box textarea');
    if (box && box.placeholder !== facts.placeholder) {
      box.placeholder = facts.placeholder;
      box.setAttribute('aria-label', facts.placeholder);
    }
    for (const name of ['send', 'stop']) {
      const button = find(`#gl-${name}`);
      if (button) { button.title = facts[name]; button.setAttribute('aria-label', facts[name]); }
    }
    const search = find('#gl-search input, #gl-search textarea');
    if (search && search.placeholder !== facts.search) {
      search.placeholder = facts.search;
      search.setAttribute('aria-label', facts.search);
      search.type = 'search';
    }
    if (box && facts.editing && facts.editing !== editing) { box.focus(); box.setSelectionRange(9e6, 9e6); }
    editing = facts.editing;
    name(facts.session);
    if (session !== facts.session) { session = facts.session; atBottom = true; follow(); }
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

  // ---- scrolling: stay at the bottom unless the person has scrolled up

  let session = '';
  let atBottom = true;
  const follow = () => {
    const scroll = find('#gl-scroll');
    if (scroll && atBottom) scroll.scrollTop = scroll.scrollHeight;
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
    const target = event.target.closest('[data-sheet],[data-theme],[data-do],[data-close-sheet],[data-import],a[href^="#request-"],a[href^="#do-"]');
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
    if (target.dataset.do === 'language')
      document.cookie = `glassloop_language=${target.dataset.value};path=/;max-age=31536000;samesite=lax`;
    if (target.dataset.do === 'send') atBottom = true;
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

  // ---- keys

  document.addEventListener('keydown', (event) => {
    if (event.isComposing) return;
    if (event.key === 'Escape') {
      const cancel = find('.gl-rename [data-do=rename_cancel], [data-do=compare_close], [data-do=undo_cancel], [data-do=edit_cancel]');
      if (cancel) cancel.click();
      else if (app.dataset.open) app.dataset.open = '';
      else if (app.dataset.running) find('#gl-stop')?.click();
    }
    if (event.key === 'Enter' && event.target.closest?.('.gl-rename')) find('.gl-rename [data-do=rename_save]').click();
    if (event.key === 'Enter' && !event.shiftKey && event.target.closest?.('#gl-box')) atBottom = true;
  });

  // ---- begin when the page's parts are there

  new MutationObserver((_, observer) => {
    const scroll = find('#gl-scroll'), state = find('#gl-state');
    if (!scroll || !state) return;
    observer.disconnect();
    app = find('#gl-app');
    watchScroll(scroll);
    new MutationObserver(() => {
      const field = find('[data-focus]');
      if (field) { field.removeAttribute('data-focus'); field.focus(); field.select(); }
    }).observe(find('#gl-list'), {subtree: true, childList: true});
    new MutationObserver(readFacts).observe(state, {subtree: true, childList: true, attributes: true});
    readFacts();
  }).observe(body, {subtree: true, childList: true});
}
